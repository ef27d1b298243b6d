// Unicode as a tokenizer needs it: UTF-8, character properties, canonical composition (NFC), case.
//
// The tables come from the Unicode version of the Python that built the tree: a character newer than that version
// counts as unassigned.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace fk::unicode {

inline constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

struct Decoded {
  char32_t c;
  uint32_t size;  // bytes
};

// The character that starts at `at`. `text` must be valid UTF-8 and `at` one of its character starts.
inline Decoded decode_at(std::string_view text, size_t at) {
  auto byte = [&](size_t i) { return static_cast<unsigned char>(text[at + i]); };
  char32_t lead = byte(0);
  if (lead < 0x80) return {lead, 1};
  if (lead < 0xE0) return {(lead & 0x1Fu) << 6 | (byte(1) & 0x3Fu), 2};
  if (lead < 0xF0) return {(lead & 0x0Fu) << 12 | (byte(1) & 0x3Fu) << 6 | (byte(2) & 0x3Fu), 3};
  return {(lead & 0x07u) << 18 | (byte(1) & 0x3Fu) << 12 | (byte(2) & 0x3Fu) << 6 | (byte(3) & 0x3Fu), 4};
}

// The start of the character that ends at `end` > 0.
inline size_t previous(std::string_view text, size_t end) {
  --end;
  while ((static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  return end;
}

void append_utf8(std::string& out, char32_t c);

// Bytes in, valid UTF-8 out: each maximal invalid part becomes one U+FFFD, as Python's errors='replace' and Rust's
// from_utf8_lossy do it. An incomplete character is held back until its rest, or the end, arrives.
class Utf8Repair {
 public:
  void push(std::string_view bytes, std::string& out);
  void finish(std::string& out);

 private:
  std::string held_;
};

std::string repair_utf8(std::string_view bytes);

// General categories as a bit set: the bit of one character, and the bits of a name such as "L" or "Lu" (0 if there is
// no such name).
uint32_t category_bit(char32_t c);
uint32_t category_mask(std::string_view name);
inline constexpr uint32_t kAllCategories = (1u << 30) - 1;

bool is_space(char32_t c);  // \s: White_Space
bool is_word(char32_t c);   // part of a word: Alphabetic, marks, decimal digits, connectors, joiners
// \w of Oniguruma inside a class; its words have no joiners. Outside of classes, and for \b, six digits and fractions
// of Latin-1 count too.
bool is_regex_word(char32_t c);
inline constexpr char32_t kMoreWordAlone[] = {0xB2, 0xB3, 0xB9, 0xBC, 0xBD, 0xBE};
bool is_regex_word_alone(char32_t c);

std::string nfc(std::string_view text);

// Simple (one to one) case folding as pairs, sorted by `folded`; a character that folds to itself has none.
struct Fold {
  char32_t folded;
  char32_t c;
};
std::span<const Fold> folds();

// Characters whose full case folding is two or three characters (then a zero follows two), sorted by it.
struct LongFold {
  std::array<char32_t, 3> folded;
  char32_t c;
};
std::span<const LongFold> long_folds();

// Full case mappings: one to three characters, with zeros behind them.
using Mapped = std::array<char32_t, 3>;
Mapped upper_case(char32_t c);
Mapped lower_case(char32_t c);
Mapped title_case(char32_t c);

}  // namespace fk::unicode
