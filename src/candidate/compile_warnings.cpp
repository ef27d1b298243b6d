#include "candidate/compile_warnings.h"

#include <fmt/format.h>

#include <algorithm>

namespace fk {

std::vector<std::string> warnings_in(std::string_view log) {
  constexpr std::string_view kWord = "warning: ", kNvcc = "warning #";
  constexpr size_t kLongest = 200;
  std::vector<std::string> warnings;
  while (!log.empty()) {
    std::string_view line = log.substr(0, log.find('\n'));
    log.remove_prefix(std::min(line.size() + 1, log.size()));
    size_t at = line.find(kWord);
    std::string text;
    if (at != line.npos)
      text = std::string(line.substr(0, at)) + std::string(line.substr(at + kWord.size()));
    else if (line.find(kNvcc) != line.npos)
      text = std::string(line);
    if (text.empty()) continue;
    if (text.size() > kLongest) text = text.substr(0, kLongest) + " ...";
    // A header that is included twice, or a template that is used twice, warns twice.
    if (std::find(warnings.begin(), warnings.end(), text) == warnings.end()) warnings.push_back(std::move(text));
  }
  return warnings;
}

std::string short_warnings(const std::vector<std::string>& warnings) {
  constexpr size_t kShown = 3;
  std::string text;
  for (size_t i = 0; i < std::min(kShown, warnings.size()); ++i)
    text += fmt::format("{}warning: {}", i == 0 ? "" : "\n", warnings[i]);
  if (warnings.size() > kShown) text += fmt::format("\n(and {} more warnings)", warnings.size() - kShown);
  return text;
}

}  // namespace fk
