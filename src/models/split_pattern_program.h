// The compiled form of a split pattern: character sets and instructions for the matcher.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "models/unicode.h"

namespace fk {

// A set of characters. Case is already folded in and ASCII already decided when the compiler is done with it.
struct CharSet {
  struct Range {
    char32_t first, last;
  };

  std::vector<Range> ranges;  // in order, apart
  uint32_t categories = 0;    // unicode::category_bit()
  bool space = false, not_space = false;
  bool word = false, not_word = false;
  bool negated = false;
  std::array<uint64_t, 2> ascii{};

  bool evaluate(char32_t c) const;
  bool contains(char32_t c) const { return c < 128 ? ascii[c >> 6] >> (c & 63) & 1 : evaluate(c); }
};

enum class PatternOp : uint8_t {
  kSet,      // one character of sets[x]
  kRepeat,   // as many characters of sets[x] as possible, min to max, with backtracking unless `atomic`
  kSplit,    // try x; when that fails, y
  kJump,     // go to x
  kLook,     // the program at x must match here (or must not, where `negated`); then go to y
  kAtomic,   // the first match of the program at x; then go to y, without backtracking into it
  kWordEnd,  // a word begins or ends here (or does not, where `negated`)
  kMark,     // remember the position in slot x
  kLoop,     // go to y unless the position is the one in slot x: an empty round ends its loop
  kAccept,
};

struct PatternInstruction {
  PatternOp op;
  bool negated = false;
  bool atomic = false;
  uint32_t x = 0, y = 0;
  uint32_t min = 0, max = 0;
};

struct PatternProgram {
  std::vector<CharSet> sets;
  std::vector<PatternInstruction> code;
  uint32_t slots = 0;
};

inline constexpr uint32_t kNoLimit = UINT32_MAX;

// Throws Error that names the construct if the pattern uses something unsupported.
PatternProgram compile_split_pattern(std::string_view pattern);

}  // namespace fk
