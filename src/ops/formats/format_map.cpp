#include "ops/formats/format_map.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>

#include "core/error.h"

namespace fk {
namespace {

constexpr std::string_view kNone = "none";

std::vector<std::string_view> split(std::string_view text, char at) {
  std::vector<std::string_view> pieces;
  for (;;) {
    size_t end = text.find(at);
    pieces.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return pieces;
    text.remove_prefix(end + 1);
  }
}

int64_t layer_number(std::string_view text) {
  int64_t value = -1;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0)
    throw Error("The weight formats name layer '{}'; give numbers and ranges such as 0-3,8.", text);
  return value;
}

bool names_layer(std::string_view layers, int64_t layer) {
  for (std::string_view range : split(layers, ',')) {
    std::vector<std::string_view> ends = split(range, '-');
    int64_t first = layer_number(ends.front()), last = layer_number(ends.back());
    if (ends.size() <= 2 && first <= layer && layer <= last) return true;
  }
  return false;
}

std::string plain(std::string_view format) { return std::string(format == kNone ? "" : format); }

// "0-3,8"
std::string layers_text(const std::vector<int64_t>& layers) {
  std::string text;
  for (size_t i = 0; i < layers.size();) {
    size_t last = i;
    while (last + 1 < layers.size() && layers[last + 1] == layers[last] + 1) ++last;
    text += fmt::format("{}{}", text.empty() ? "" : ",", layers[i]);
    if (last > i) text += fmt::format("-{}", layers[last]);
    i = last + 1;
  }
  return text;
}

}  // namespace

std::string formats_of_layer(std::string_view formats, int64_t layer) {
  std::string text;
  for (std::string_view piece : split(formats, ';')) {
    size_t at = piece.find('@');
    if (at != std::string_view::npos && !names_layer(piece.substr(at + 1), layer)) continue;
    text += fmt::format("{}{}", text.empty() ? "" : ";", piece.substr(0, at));
  }
  return text;
}

std::string format_of_module(std::string_view formats, std::string_view module) {
  std::vector<std::string_view> pieces = split(formats, ';');
  for (size_t i = 1; i < pieces.size(); ++i) {
    size_t equals = pieces[i].find('=');
    if (pieces[i].find('@') != std::string_view::npos) continue;  // of layers
    if (equals == std::string_view::npos)
      throw Error("'{}' gives no weight format to a module; an exception looks like v_proj=q6_k.", pieces[i]);
    if (pieces[i].substr(0, equals) == module) return plain(pieces[i].substr(equals + 1));
  }
  return plain(pieces[0]);
}

std::string format_of_modules(std::string_view formats, std::initializer_list<std::string_view> modules) {
  std::string first = format_of_module(formats, *modules.begin()), joined;
  bool same = true;
  for (std::string_view module : modules) {
    std::string format = format_of_module(formats, module);
    if (format.empty() != first.empty())
      throw Error("{} is quantised and {} is not, but the model multiplies by both at once; quantise all or none.",
                  format.empty() ? *modules.begin() : module, format.empty() ? module : *modules.begin());
    same = same && format == first;
    joined += (joined.empty() ? "" : "+") + format;
  }
  return same ? first : joined;
}

std::vector<std::string> formats_of_parts(std::string_view joined, size_t parts) {
  std::vector<std::string_view> names = split(joined, '+');
  if (names.size() != 1 && names.size() != parts)
    throw Error("The weight formats '{}' are {}, for {} stacked matrices.", joined, names.size(), parts);
  std::vector<std::string> result;
  for (size_t i = 0; i < parts; ++i) result.emplace_back(names.size() == 1 ? names[0] : names[i]);
  return result;
}

std::string format_map(const std::vector<MatrixFormat>& matrices) {
  std::map<std::string, int64_t> counts;
  for (const MatrixFormat& m : matrices) ++counts[m.format];
  auto usual =
      std::max_element(counts.begin(), counts.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  if (usual == counts.end()) return "";
  std::map<std::pair<std::string, std::string>, std::vector<int64_t>> exceptions;
  for (const MatrixFormat& m : matrices)
    if (m.format != usual->first) exceptions[{m.module, m.format}].push_back(m.layer);
  if (exceptions.empty()) return usual->first;
  auto name = [](const std::string& format) { return format.empty() ? std::string(kNone) : format; };
  std::string text = name(usual->first);
  for (auto& [key, layers] : exceptions) {
    std::sort(layers.begin(), layers.end());
    text += fmt::format(";{}={}", key.first, name(key.second));
    if (layers.front() >= 0) text += "@" + layers_text(layers);
  }
  return text;
}

}  // namespace fk
