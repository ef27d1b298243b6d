#include "track/base64.h"

#include <cstdint>

#include "core/error.h"

namespace fk {
namespace {

constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

}  // namespace

std::string to_base64(std::string_view bytes) {
  std::string text;
  for (size_t i = 0; i < bytes.size(); i += 3) {
    size_t n = std::min<size_t>(3, bytes.size() - i);
    uint32_t group = 0;
    for (size_t j = 0; j < 3; ++j) group = group << 8 | (j < n ? static_cast<unsigned char>(bytes[i + j]) : 0u);
    for (size_t j = 0; j < 4; ++j) text += j <= n ? kDigits[group >> (18 - 6 * j) & 63] : '=';
  }
  return text;
}

std::string from_base64(std::string_view text) {
  auto refuse = [] { throw Error("the text is not base64"); };
  if (text.size() % 4 != 0) refuse();
  size_t padding = text.ends_with("==") ? 2 : text.ends_with("=") ? 1 : 0;
  std::string bytes;
  for (size_t i = 0; i < text.size(); i += 4) {
    uint32_t group = 0;
    for (size_t j = 0; j < 4; ++j) {
      size_t digit = i + j >= text.size() - padding ? 0 : kDigits.find(text[i + j]);
      if (digit == std::string_view::npos) refuse();
      group = group << 6 | static_cast<uint32_t>(digit);
    }
    for (int shift = 16; shift >= 0; shift -= 8) bytes += static_cast<char>(group >> shift & 0xff);
  }
  bytes.resize(bytes.size() - padding);
  return bytes;
}

}  // namespace fk
