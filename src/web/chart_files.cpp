// draw_charts: opens a report in a headless browser and extracts the charts from the page.
#include <fmt/format.h>
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <set>

#include "core/error.h"
#include "measure/child_output.h"
#include "web/escape.h"
#include "web/web.h"

namespace fk {
namespace {

namespace fs = std::filesystem;

std::string find_browser() {
  for (const char* name : {"chromium", "chromium-browser", "google-chrome"})
    if (auto path = find_program(name)) return *path;
  throw Error(
      "Charts as files need Chromium, which is not on the PATH; install it (apt-get install chromium), or open the "
      "report "
      "and save a chart with the button beside it.");
}

// A separate profile: otherwise a running browser would open the page instead.
class Profile {
 public:
  Profile() {
    std::string pattern = (fs::temp_directory_path() / "fastkernels-chromium-XXXXXX").string();
    if (mkdtemp(pattern.data()) == nullptr)
      throw Error("No temporary folder can be made in {}; free some space there.", fs::temp_directory_path().string());
    path_ = pattern;
  }
  ~Profile() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  Profile(const Profile&) = delete;
  Profile& operator=(const Profile&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

std::string file_name(std::string_view chart) {
  std::string name;
  for (char c : chart)
    name += isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '-' || c == '.' ? c : '-';
  return name.empty() || name[0] == '.' ? "chart" + name : name;
}

std::string from_base64(std::string_view text) {
  std::string bytes;
  uint32_t bits = 0;
  int count = 0;
  for (char c : text) {
    int digit = c >= 'A' && c <= 'Z'   ? c - 'A'
                : c >= 'a' && c <= 'z' ? c - 'a' + 26
                : c >= '0' && c <= '9' ? c - '0' + 52
                : c == '+'             ? 62
                : c == '/'             ? 63
                                       : -1;
    if (digit < 0) break;
    bits = bits << 6 | static_cast<uint32_t>(digit);
    count += 6;
    if (count >= 8) bytes += static_cast<char>(bits >> (count -= 8) & 255);
  }
  return bytes;
}

}  // namespace

std::vector<ChartFile> draw_charts(const std::string& report_path, const std::string& run_id, bool png) {
  std::string browser = find_browser();
  Profile profile;
  std::string url =
      fmt::format("file://{}#/export/{}{}", fs::absolute(report_path).string(), url_part(run_id), png ? "?png=1" : "");
  std::vector<std::string> command = {browser,
                                      "--headless",
                                      "--disable-gpu",
                                      "--hide-scrollbars",
                                      "--no-first-run",
                                      "--disable-extensions",
                                      "--disable-dev-shm-usage",
                                      "--window-size=1100,1600",
                                      "--user-data-dir=" + profile.path(),
                                      "--virtual-time-budget=30000"};
  if (geteuid() == 0) command.emplace_back("--no-sandbox");  // Chromium refuses to sandbox for root
  command.emplace_back("--dump-dom");
  command.push_back(url);
  std::optional<std::string> dom = output_of(command, 120'000, size_t{256} << 20);
  if (!dom) throw Error("{} could not draw {}; open the report in a browser instead.", browser, report_path);
  constexpr std::string_view kOpen = "<pre id=\"fk-export\" hidden=\"\">", kClose = "</pre>";
  size_t begin = dom->find(kOpen);
  size_t end = begin == std::string::npos ? begin : dom->find(kClose, begin);
  if (end == std::string::npos)
    throw Error("{} opened {} but drew no chart; open the report in a browser instead.", browser, report_path);
  begin += kOpen.size();
  Json list = parse_json(html_unescaped(std::string_view(*dom).substr(begin, end - begin)), "What the browser drew");
  std::vector<ChartFile> charts;
  std::set<std::string> names;
  for (const Json& c : list) {
    // Two names may differ in characters that files do not get.
    const std::string wanted = file_name(c["name"].get<std::string>());
    std::string name = wanted;
    for (int i = 2; !names.insert(name).second; ++i) name = fmt::format("{}-{}", wanted, i);
    std::string_view data = c["png"].get_ref<const std::string&>();
    size_t comma = data.find(',');
    charts.push_back({name, c["svg"].get<std::string>(),
                      comma == std::string_view::npos ? "" : from_base64(data.substr(comma + 1))});
  }
  return charts;
}

}  // namespace fk
