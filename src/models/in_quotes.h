// A name from a file, made fit to stand in an error: in quotes, clipped, without control characters.
#pragma once

#include <string>
#include <string_view>

namespace fk {

inline std::string in_quotes(std::string_view name) {
  constexpr size_t kLongest = 200;  // beyond the tensor names and most paths of real checkpoints
  std::string result = "'";
  for (char c : name.substr(0, kLongest)) result += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? '?' : c;
  if (name.size() > kLongest) result += "...";
  return result += "'";
}

}  // namespace fk
