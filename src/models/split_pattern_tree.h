// A split pattern as a tree: what the parser makes and the compiler takes.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "models/split_pattern_program.h"

namespace fk {

struct PatternNode {
  enum Kind { kSet, kConcat, kAlternate, kRepeat, kLook } kind;
  uint32_t set = 0;  // kSet: an index into the sets
  std::vector<PatternNode> children{};
  uint32_t min = 0, max = 0;  // kRepeat
  bool lazy = false;          // kRepeat
  bool negated = false;       // kLook
};

// `pattern` must be valid UTF-8. Appends the character sets it needs to `sets`.
PatternNode parse_split_pattern(std::string_view pattern, std::vector<CharSet>& sets);

}  // namespace fk
