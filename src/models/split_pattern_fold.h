// Letters without regard to case, as Oniguruma folds them: K is k is the Kelvin sign, and a sharp s is two s.
#pragma once

#include <string>
#include <vector>

#include "models/split_pattern_program.h"

namespace fk {

// Adds every character that differs only by case from one in the set.
void fold_case(CharSet& set);

// What characters of a set are when case is folded, where that is several characters: "ss" for a sharp s.
std::vector<std::u32string> long_folds(const CharSet& set);

// A place in a literal: one character of a set, or several characters one after the other, each in either case.
struct FoldedPiece {
  CharSet one;
  std::u32string several;  // empty where there is only `one`
};
// From left to right, each piece as long as possible: "ffi" is one piece, which the ligature of the three matches too.
std::vector<FoldedPiece> fold_literal(const std::u32string& text);

}  // namespace fk
