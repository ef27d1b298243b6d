// Quotes a command so that a user can paste it into a shell.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace fk {

std::string shell_word(std::string_view text);  // quoted where a shell would not take it as one word
std::string shell_line(const std::vector<std::string>& words);

}  // namespace fk
