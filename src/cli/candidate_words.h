// Prints the output of a candidate's compiler and of the candidate itself to standard error.
#pragma once

#include <string>
#include <vector>

#include "core/json.h"

namespace fk {

void show_warnings(const std::vector<std::string>& warnings);  // the first few
void show_printed(const Json& row);                            // the candidate's output in a repeated call

}  // namespace fk
