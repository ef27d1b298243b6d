// Makes text from a user, a file or a candidate safe to print on a terminal.
#pragma once

#include <string>
#include <string_view>

namespace fk {

// Control characters and bytes that are not UTF-8 as \x1b, so that a name cannot move the cursor or change colours.
std::string printable(std::string_view text);
// The same for texts of several lines: line ends and tabs stay, and what else is named.
std::string printable_lines(std::string_view text, std::string_view kept = "");

}  // namespace fk
