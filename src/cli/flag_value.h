// Values for flags from elsewhere than the command line: whether a flag takes them, and setting them.
#pragma once

#include <string>
#include <vector>

#include "cli/flags.h"

namespace fk {

// Empty, or what is wrong with these values, as the end of a sentence: "900 is not from 1 to 256". Flags that read
// their texts themselves say it when the value is set.
std::string complaint_about(const Flag& flag, const std::vector<std::string>& values);

// As if the command line had them under `name`, one of the flag's own. Values must have passed complaint_about.
void set_flag(Flag& flag, const std::string& name, const std::vector<std::string>& values);

}  // namespace fk
