#include "web/page.h"

#include <fmt/format.h>

#include <random>
#include <span>
#include <utility>
#include <vector>

#include "core/check.h"
#include "track/base64.h"
#include "web/escape.h"

namespace fk {

extern const std::string_view kD3Source;
extern const std::span<const std::pair<std::string_view, std::string_view>> kWebAssets;

namespace {

constexpr std::string_view kStyles[] = {"base.css", "layout.css", "table.css", "chart.css", "code.css"};

std::string filled(std::string_view head, std::string_view body) {
  std::string page(find_asset("index.html")->text);
  for (auto [place, text] :
       {std::pair<std::string_view, std::string_view>{"<!--fk:head-->", head}, {"<!--fk:body-->", body}}) {
    size_t at = page.find(place);
    FK_CHECK(at != std::string::npos);
    page.replace(at, place.size(), text);
  }
  return page;
}

// Modules import each other as "./name.js", which does not work inside one file. There they are "fk/name.js", and an
// import map resolves these names to texts in the file.
std::string import_map() {
  Json imports = Json::object();
  for (auto [name, text] : kWebAssets) {
    if (!name.ends_with(".js") || name == "theme.js") continue;
    std::string module(text);
    constexpr std::string_view kFrom = "from \"./", kInside = "from \"fk/";
    for (size_t at = 0; (at = module.find(kFrom, at)) != std::string::npos;) module.replace(at, kFrom.size(), kInside);
    imports["fk/" + std::string(name)] = "data:text/javascript;base64," + to_base64(module);
  }
  return script_json({{"imports", imports}});
}

}  // namespace

std::optional<Asset> find_asset(std::string_view name) {
  if (name == "d3.js") return Asset{kD3Source, "text/javascript; charset=utf-8"};
  for (auto [file, text] : kWebAssets) {
    if (file != name) continue;
    std::string_view type = name.ends_with(".js")    ? "text/javascript; charset=utf-8"
                            : name.ends_with(".css") ? "text/css; charset=utf-8"
                                                     : "text/html; charset=utf-8";
    return Asset{text, type};
  }
  return std::nullopt;
}

std::string served_page(std::string_view action_token) {
  std::string head;
  if (!action_token.empty())
    head = fmt::format("<meta name=\"fk-token\" content=\"{}\">\n", html_escaped(action_token));
  for (std::string_view style : kStyles) head += fmt::format("<link rel=\"stylesheet\" href=\"/assets/{}\">\n", style);
  head += "<link rel=\"icon\" href=\"data:,\">\n<script src=\"/assets/theme.js\"></script>";
  return filled(head,
                "<script src=\"/assets/d3.js\"></script>\n<script type=\"module\" src=\"/assets/main.js\"></script>");
}

std::string offline_page(const Json& data) {
  // One nonce marks the scripts and styles that were written here; a module passes it on to those it imports.
  std::string nonce = random_token();
  std::string head = fmt::format(
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; script-src 'nonce-{0}'; "
      "style-src 'nonce-{0}'; img-src data:; base-uri 'none'; form-action 'none'\">\n<link rel=\"icon\" "
      "href=\"data:,\">\n",
      nonce);
  for (std::string_view style : kStyles)
    head += fmt::format("<style nonce=\"{}\">\n{}</style>\n", nonce, find_asset(style)->text);
  head += fmt::format("<script nonce=\"{0}\">{1}</script>\n<script nonce=\"{0}\" type=\"importmap\">{2}</script>",
                      nonce, find_asset("theme.js")->text, import_map());
  std::string body = fmt::format(
      "<script id=\"fk-data\" type=\"application/json\">{1}</script>\n<script nonce=\"{0}\">{2}</script>\n"
      "<script nonce=\"{0}\" type=\"module\">import \"fk/main.js\";</script>",
      nonce, script_json(data), kD3Source);
  return filled(head, body);
}

std::string random_token() {
  std::random_device source;
  std::string token;
  for (int i = 0; i < 4; ++i) token += fmt::format("{:08x}", source());
  return token;
}

}  // namespace fk
