#include "models/tokenizer_bytes.h"

#include <array>

#include "models/unicode.h"

namespace fk {
namespace {

// Printable bytes map to themselves; the other 68 to characters from U+0100 on, in order.
constexpr char32_t kFirstExtra = 0x100;

constexpr bool stands_for_itself(unsigned b) {
  return (b >= 0x21 && b <= 0x7E) || (b >= 0xA1 && b <= 0xAC) || (b >= 0xAE && b <= 0xFF);
}

constexpr std::array<char32_t, 256> kCharacterOf = [] {
  std::array<char32_t, 256> out{};
  char32_t extra = kFirstExtra;
  for (unsigned b = 0; b < 256; ++b) out[b] = stands_for_itself(b) ? b : extra++;
  return out;
}();

constexpr size_t kExtras = 68;

constexpr std::array<unsigned char, kExtras> kByteOfExtra = [] {
  std::array<unsigned char, kExtras> out{};
  for (unsigned b = 0; b < 256; ++b)
    if (kCharacterOf[b] >= kFirstExtra) out[kCharacterOf[b] - kFirstExtra] = static_cast<unsigned char>(b);
  return out;
}();

}  // namespace

void append_byte_characters(std::string_view text, std::string& out) {
  for (char byte : text) unicode::append_utf8(out, kCharacterOf[static_cast<unsigned char>(byte)]);
}

std::optional<unsigned char> byte_of_character(char32_t c) {
  if (c < kFirstExtra) return stands_for_itself(c) ? std::optional(static_cast<unsigned char>(c)) : std::nullopt;
  if (c < kFirstExtra + kExtras) return kByteOfExtra[c - kFirstExtra];
  return std::nullopt;
}

}  // namespace fk
