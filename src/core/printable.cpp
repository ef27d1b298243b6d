#include "core/printable.h"

#include <fmt/format.h>

namespace fk {
namespace {

// Bytes of the UTF-8 character at `at`; 0 where there is none, or where it controls a terminal.
size_t shown_bytes(std::string_view text, size_t at) {
  auto byte = [&](size_t i) { return at + i < text.size() ? static_cast<unsigned char>(text[at + i]) : 0u; };
  unsigned lead = byte(0);
  if (lead < 0x80) return lead >= 0x20 && lead != 0x7f ? 1 : 0;
  size_t size = lead < 0xc2 ? 0 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : lead < 0xf5 ? 4 : 0;
  for (size_t i = 1; i < size; ++i)
    if ((byte(i) & 0xc0) != 0x80) return 0;
  bool overlong = (lead == 0xe0 && byte(1) < 0xa0) || (lead == 0xf0 && byte(1) < 0x90);
  bool beyond = (lead == 0xed && byte(1) >= 0xa0) || (lead == 0xf4 && byte(1) >= 0x90);
  bool control = lead == 0xc2 && byte(1) < 0xa0;  // U+0080 to U+009F, among them a second escape
  return overlong || beyond || control ? 0 : size;
}

std::string escaped(std::string_view text, std::string_view kept) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    size_t size = kept.find(text[at]) != std::string_view::npos ? 1 : shown_bytes(text, at);
    if (size == 0)
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(text[at++]));
    else
      out += text.substr(at, size);
    at += size;
  }
  return out;
}

}  // namespace

std::string printable(std::string_view text) { return escaped(text, ""); }
std::string printable_lines(std::string_view text, std::string_view kept) {
  return escaped(text, "\n\t" + std::string(kept));
}

}  // namespace fk
