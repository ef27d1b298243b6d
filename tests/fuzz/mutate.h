// Seeded mutation of texts and files: the same seed makes the same damage on every machine.
#pragma once

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <string>
#include <string_view>

#include "core/rng.h"

namespace fk {

class Mutator {
 public:
  explicit Mutator(uint64_t seed) : stream_(seed, "mutator") {}

  uint64_t below(uint64_t n) { return n == 0 ? 0 : stream_.below(next_++, n); }

  // One to four mutations of kinds that often break parsers: flipped bits, deletions, copies, numbers at the limits of
  // types, brackets, and special bytes of JSON.
  std::string mutate(std::string text) {
    for (uint64_t wounds = 1 + below(4); wounds != 0; --wounds) wound(text);
    return text;
  }

 private:
  size_t place(const std::string& text) { return static_cast<size_t>(below(text.size() + 1)); }

  void wound(std::string& text) {
    static constexpr std::string_view kNumbers[] = {"0",
                                                    "-0",
                                                    "-1",
                                                    "1",
                                                    "2",
                                                    "7",
                                                    "127",
                                                    "65536",
                                                    "2147483647",
                                                    "2147483648",
                                                    "4294967295",
                                                    "4294967296",
                                                    "9223372036854775807",
                                                    "9223372036854775808",
                                                    "18446744073709551615",
                                                    "18446744073709551616",
                                                    "1e308",
                                                    "1e-320",
                                                    "1e999",
                                                    "0.5",
                                                    "-1.5e3",
                                                    "1E5",
                                                    "00",
                                                    "1.",
                                                    "NaN",
                                                    "null",
                                                    "true",
                                                    "\"1\"",
                                                    "[]",
                                                    "{}"};
    static constexpr std::string_view kPieces[] = {"\"",   "{",        "}",       "[",       "]",      ",",
                                                   ":",    "\\",       "\\u0000", "\\ud800", "//",     "\xef\xbb\xbf",
                                                   "\xff", "\xc0\x80", "\n",      "null",    "{\"a\":"};
    size_t at = place(text);
    switch (below(9)) {
      case 0:
        if (at < text.size()) text[at] = static_cast<char>(text[at] ^ (1 << below(8)));
        break;
      case 1:
        if (at < text.size()) text[at] = static_cast<char>(below(256));
        break;
      case 2:
        text.erase(at, below(16));
        break;
      case 3:
        text.resize(at);
        break;
      case 4: {  // a piece of the text again, somewhere else
        std::string copy = text.substr(at, below(64));
        text.insert(place(text), copy);
        break;
      }
      case 5:
        text.insert(at, kPieces[below(std::size(kPieces))]);
        break;
      case 6:
        text.insert(at, std::string(below(300), below(2) == 0 ? '[' : '\0'));
        break;
      default:
        replace_number(text, at, kNumbers[below(std::size(kNumbers))]);
    }
  }

  static void replace_number(std::string& text, size_t at, std::string_view number) {
    auto digit = [](unsigned char c) { return std::isdigit(c) != 0; };
    auto begin = std::find_if(text.begin() + static_cast<std::ptrdiff_t>(at), text.end(), digit);
    auto end = std::find_if_not(begin, text.end(), digit);
    text.replace(begin, end, number);
  }

  Stream stream_;
  uint64_t next_ = 0;
};

}  // namespace fk
