// A regular expression that splits text into words, as tokenizer files hold one: a small backtracking engine.
//
// Handles alternation, groups (plain, (?:), (?i:), (?>)), lookahead, classes with ranges and negation, \p{..} of
// general categories, \s \S \d \D \w \W \b \B, and the quantifiers ? * + {m,n}, greedy, lazy or possessive. Its meaning
// is that of Oniguruma, for which tokenizer files are written.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string_view>

namespace fk {

struct PatternProgram;

class SplitPattern {
 public:
  // Throws Error that names the construct if the pattern uses something unsupported.
  explicit SplitPattern(std::string_view pattern);

  // Calls `match(begin, end)` for each match from left to right, none overlapping. `text` must be valid UTF-8.
  // Work is bounded by a constant times the length of the text; a pattern that needs more throws Error.
  void for_each_match(std::string_view text, const std::function<void(size_t, size_t)>& match) const;

 private:
  std::shared_ptr<const PatternProgram> program_;
};

}  // namespace fk
