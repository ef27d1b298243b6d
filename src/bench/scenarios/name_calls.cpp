#include "bench/scenarios/name_calls.h"

#include <fmt/format.h>

#include <cctype>
#include <map>
#include <set>

namespace fk {
namespace {

// The last part of a path that is a word, with the number behind it: "qkv_proj", "layers.0".
std::string place(const std::string& path) {
  size_t dot = path.rfind('.');
  if (dot == std::string::npos) return path.empty() ? "model" : path;
  bool number = path.find_first_not_of("0123456789", dot + 1) == std::string::npos;
  size_t before = number ? path.rfind('.', dot - 1) : dot;
  return before == std::string::npos ? path : path.substr(before + 1);
}

}  // namespace

std::string name_part(std::string_view text) {
  std::string part;
  for (char c : text) {
    bool plain = std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '.' || c == '_';
    if (plain)
      part += c;
    else if (!part.empty() && part.back() != '-')
      part += '-';
  }
  while (!part.empty() && part.back() == '-') part.pop_back();
  return part;
}

void name_calls(std::vector<RecordedCall>& calls, const std::string& prefix) {
  std::map<std::pair<std::string, std::string>, int> ways;
  for (const RecordedCall& call : calls) ++ways[{call.scenario.op, call.step}];
  std::set<std::pair<std::string, std::string>> taken;
  for (RecordedCall& call : calls) {
    Scenario& s = call.scenario;
    std::string name = fmt::format("{}/{}", prefix, call.step);
    if (ways[{s.op, call.step}] > 1) name += "/" + place(call.path);
    s.name = name;
    for (int i = 2; !taken.emplace(s.op, s.name).second; ++i) s.name = fmt::format("{}-{}", name, i);
  }
}

}  // namespace fk
