// The width of a text on a terminal, and how it is cut and wrapped to fit.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace fk {

// In columns of a terminal: letters of Chinese, Japanese and Korean and most emoji take two, accents that combine with
// the letter before them none, and a byte that is not UTF-8 one. The text holds no control characters (see
// core/printable.h).
size_t text_width(std::string_view utf8);

// The longest beginning that takes at most so many columns. Never ends inside a character.
std::string_view first_columns(std::string_view utf8, size_t columns);

// Of the words between blanks.
size_t widest_word(std::string_view utf8);

// Lines of at most so many columns, broken at blanks; in a longer word behind the signs inside names (/ , _ - .), or
// anywhere where it has none of them. At least one line; `columns` is at least 2.
std::vector<std::string> wrapped_lines(std::string_view utf8, size_t columns);

}  // namespace fk
