#include "models/split_pattern_fold.h"

#include <algorithm>
#include <optional>

#include "models/unicode.h"

namespace fk {
namespace {

char32_t simple_fold(char32_t c) {
  for (const unicode::Fold& fold : unicode::folds())
    if (fold.c == c) return fold.folded;
  return c;
}

std::u32string text_of(const unicode::LongFold& fold) {
  std::u32string text;
  for (char32_t c : fold.folded)
    if (c != 0) text += c;
  return text;
}

// The fold of several characters that equals these characters, each folded.
std::optional<std::u32string> long_fold_at(const std::u32string& text, size_t at) {
  std::optional<std::u32string> longest;
  for (const unicode::LongFold& fold : unicode::long_folds()) {
    std::u32string several = text_of(fold);
    if (longest && longest->size() >= several.size()) continue;
    bool same = at + several.size() <= text.size();
    for (size_t i = 0; same && i < several.size(); ++i) same = simple_fold(text[at + i]) == several[i];
    if (same) longest = several;
  }
  return longest;
}

std::optional<std::u32string> long_fold_of(char32_t c) {
  for (const unicode::LongFold& fold : unicode::long_folds())
    if (fold.c == c) return text_of(fold);
  return std::nullopt;
}

CharSet characters_that_fold_to(const std::u32string& several) {
  CharSet set;
  for (const unicode::LongFold& fold : unicode::long_folds())
    if (text_of(fold) == several) set.ranges.push_back({fold.c, fold.c});
  return set;
}

void add_group(CharSet& set, const CharSet& plain, const std::u32string& group) {
  if (std::ranges::none_of(group, [&](char32_t c) { return plain.evaluate(c); })) return;
  for (char32_t c : group)
    if (!plain.evaluate(c)) set.ranges.push_back({c, c});
}

// Calls `each` with every group of characters with the same fold. `folds` are sorted by their fold.
template <class Folds, class Each>
void for_each_group(const Folds& folds, const Each& each) {
  for (size_t begin = 0, end; begin < folds.size(); begin = end) {
    std::u32string group;
    for (end = begin; end < folds.size() && folds[end].folded == folds[begin].folded; ++end) group += folds[end].c;
    each(folds[begin], group);
  }
}

}  // namespace

void fold_case(CharSet& set) {
  CharSet plain = set;
  plain.negated = false;
  for_each_group(unicode::folds(), [&](const unicode::Fold& fold, const std::u32string& group) {
    add_group(set, plain, group + fold.folded);
  });
  for_each_group(unicode::long_folds(),
                 [&](const unicode::LongFold&, const std::u32string& group) { add_group(set, plain, group); });
}

std::vector<std::u32string> long_folds(const CharSet& set) {
  std::vector<std::u32string> result;
  for (const unicode::LongFold& fold : unicode::long_folds())
    if (set.evaluate(fold.c) && (result.empty() || result.back() != text_of(fold))) result.push_back(text_of(fold));
  return result;
}

std::vector<FoldedPiece> fold_literal(const std::u32string& text) {
  std::vector<FoldedPiece> pieces;
  for (size_t at = 0; at < text.size();) {
    FoldedPiece piece;
    size_t taken = 1;
    if (auto several = long_fold_at(text, at)) {
      piece = {characters_that_fold_to(*several), *several};
      taken = several->size();
    } else if (auto own = long_fold_of(text[at])) {
      piece = {characters_that_fold_to(*own), *own};
    } else {
      piece.one.ranges.push_back({text[at], text[at]});
      fold_case(piece.one);
    }
    pieces.push_back(std::move(piece));
    at += taken;
  }
  return pieces;
}

}  // namespace fk
