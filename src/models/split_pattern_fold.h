// Case-insensitive matching as in Oniguruma: K, k and the Kelvin sign are equal, and a sharp s equals "ss".
#pragma once

#include <string>
#include <vector>

#include "models/split_pattern_program.h"

namespace fk {

// Adds every character that differs only by case from one in the set.
void fold_case(CharSet& set);

// The case folds of a set's characters that consist of several characters: "ss" for a sharp s.
std::vector<std::u32string> long_folds(const CharSet& set);

// A position in a literal: one character of a set, or a sequence of characters, each in either case.
struct FoldedPiece {
  CharSet one;
  std::u32string several;  // empty where there is only `one`
};
// From left to right, each piece as long as possible: "ffi" is one piece, which the ligature of the three matches too.
std::vector<FoldedPiece> fold_literal(const std::u32string& text);

}  // namespace fk
