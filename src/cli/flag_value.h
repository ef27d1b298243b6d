// Sets flags from other sources than the command line, and checks whether a flag accepts a value.
#pragma once

#include <string>
#include <vector>

#include "cli/flags.h"

namespace fk {

// Empty, or what is wrong with these values, as the end of a sentence: "900 is not from 1 to 256". Flags that parse
// their text themselves throw when the value is set.
std::string complaint_about(const Flag& flag, const std::vector<std::string>& values);

// Sets the values as if they were on the command line under `name`, one of the flag's names. complaint_about must have
// accepted them.
void set_flag(Flag& flag, const std::string& name, const std::vector<std::string>& values);

}  // namespace fk
