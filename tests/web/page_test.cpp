// The parts of the page: untrusted text never becomes markup, nothing is loaded from other hosts, nothing is missing.
#include "web/page.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <limits>
#include <regex>
#include <set>
#include <vector>

#include "web/escape.h"

namespace fk {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> asset_names() {
  std::vector<std::string> names;
  for (const auto& file : fs::directory_iterator(fs::path(FK_SOURCE_DIR) / "src/web/assets"))
    names.push_back(file.path().filename());
  return names;
}

TEST(Assets, AreAllEmbedded) {
  ASSERT_GT(asset_names().size(), 20u);
  for (const std::string& name : asset_names()) EXPECT_TRUE(find_asset(name)) << name;
  EXPECT_GT(find_asset("d3.js")->text.size(), 100'000u);
  EXPECT_EQ(find_asset("d3.js")->text.find("</script"), std::string_view::npos);
  EXPECT_FALSE(find_asset("none.js"));
  EXPECT_FALSE(find_asset("../page.cpp"));
}

// The one way to show text is a text node; what could parse markup or run text is not used at all.
TEST(Assets, NeverMakeMarkupFromText) {
  const std::regex forbidden(
      R"(innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|\.html\(|createContextualFragment|DOMParser)");
  for (const std::string& name : asset_names()) {
    std::string text(find_asset(name)->text);
    std::smatch match;
    EXPECT_FALSE(std::regex_search(text, match, forbidden)) << name << ": " << match.str();
  }
}

TEST(Assets, NameNoOtherHost) {
  const std::regex address(R"((https?:)?//[a-z0-9-]+\.[a-z]+[^\s"']*)");
  for (const std::string& name : asset_names()) {
    std::string text(find_asset(name)->text);
    for (std::sregex_iterator it(text.begin(), text.end(), address), end; it != end; ++it)
      EXPECT_TRUE(it->str().starts_with("http://www.w3.org/")) << name << ": " << it->str();
  }
}

// Offline, an import of a missing module would break the whole page.
TEST(Assets, ImportWhatThereIs) {
  const std::regex import(R"re((?:^|\n)import [^;"]*"([^"]+)";)re");
  for (const std::string& name : asset_names()) {
    if (!name.ends_with(".js")) continue;
    std::string text(find_asset(name)->text);
    for (std::sregex_iterator it(text.begin(), text.end(), import), end; it != end; ++it) {
      std::string what = (*it)[1];
      ASSERT_TRUE(what.starts_with("./")) << name << " imports " << what;
      EXPECT_TRUE(find_asset(what.substr(2))) << name << " imports " << what;
    }
  }
}

TEST(Page, CarriesDataThatCannotEndItsScript) {
  Json data = {{"/api/run/x", {{"name", "</script><script>alert(1)</script><!--"}}}};
  std::string page = offline_page(data);
  size_t begin = page.find("id=\"fk-data\""), end = page.find("</script>", begin);
  ASSERT_NE(begin, std::string::npos);
  begin = page.find('>', begin) + 1;
  std::string carried = page.substr(begin, end - begin);
  EXPECT_EQ(carried.find('<'), std::string::npos);
  EXPECT_EQ(Json::parse(carried), data);
}

TEST(Page, OfflineNeedsNothingButItself) {
  std::string page = offline_page(Json::object());
  EXPECT_EQ(page.find("src=\"/"), std::string::npos);
  EXPECT_EQ(page.find("href=\"/"), std::string::npos);
  std::smatch policy;
  ASSERT_TRUE(std::regex_search(page, policy, std::regex("default-src 'none'; script-src 'nonce-([0-9a-f]{32})'")));
  std::string nonce = policy[1];
  EXPECT_NE(offline_page(Json::object()).find("nonce-"), std::string::npos);
  EXPECT_EQ(offline_page(Json::object()).find(nonce), std::string::npos) << "each file draws its own nonce";
}

TEST(Page, ServedHoldsTheTokenOnlyWhereThereIsOne) {
  EXPECT_NE(served_page("abc").find("content=\"abc\""), std::string::npos);
  EXPECT_EQ(served_page("").find("fk-token"), std::string::npos);
  EXPECT_EQ(served_page("\"><script>").find("<script>\">"), std::string::npos);
}

TEST(Escape, SurvivesTheWayBack) {
  std::string hostile = "<a href=\"x\">'&amp;'</a>";
  EXPECT_EQ(html_escaped(hostile).find_first_of("<>\"'"), std::string::npos);
  EXPECT_EQ(html_unescaped(html_escaped(hostile)), hostile);
  EXPECT_EQ(html_unescaped("a & b &unknown; &lt"), "a & b &unknown; &lt");
}

TEST(Escape, NamesPartsAsBrowsersDo) {
  EXPECT_EQ(url_part("llama-3.2-1b/tp1/decode-8"), "llama-3.2-1b%2Ftp1%2Fdecode-8");
  EXPECT_EQ(url_part("a b+c?d#e%é"), "a%20b%2Bc%3Fd%23e%25%C3%A9");
  EXPECT_EQ(url_part("-_.!~*'()"), "-_.!~*'()");
}

TEST(Escape, JsonNeverFails) {
  EXPECT_EQ(page_json({{"x", "\xff"}}), "{\"x\":\"\xef\xbf\xbd\"}");
  EXPECT_EQ(page_json({{"x", std::numeric_limits<double>::infinity()}}), "{\"x\":null}");
  EXPECT_EQ(script_json({{"x", "</script>"}}), "{\"x\":\"\\u003c/script>\"}");
}

}  // namespace
}  // namespace fk
