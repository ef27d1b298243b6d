// The syntax tree of a split pattern: output of the parser, input of the compiler.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "models/split_pattern_program.h"

namespace fk {

struct PatternNode {
  enum Kind { kSet, kLiteral, kConcat, kAlternate, kRepeat, kLook, kAtomic, kWordEnd } kind;
  uint32_t set = 0;       // kSet: an index into the sets
  std::u32string text{};  // kLiteral: characters in either case. Only while parsing: replaced by the other kinds.
  std::vector<PatternNode> children{};
  uint32_t min = 0, max = 0;  // kRepeat
  bool lazy = false;          // kRepeat
  bool possessive = false;    // kRepeat: no backtracking
  bool negated = false;       // kLook, kWordEnd
};

// `pattern` must be valid UTF-8. Appends the character sets it needs to `sets`.
PatternNode parse_split_pattern(std::string_view pattern, std::vector<CharSet>& sets);

}  // namespace fk
