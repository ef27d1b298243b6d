// Formats a name from a file for an error message: in quotes, shortened, without control characters.
#pragma once

#include <string>
#include <string_view>

namespace fk {

inline std::string in_quotes(std::string_view name) {
  constexpr size_t kLongest = 200;  // longer than the tensor names and most paths of real checkpoints
  std::string result = "'";
  for (char c : name.substr(0, kLongest)) result += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? '?' : c;
  if (name.size() > kLongest) result += "...";
  return result += "'";
}

}  // namespace fk
