// What a candidate's compiler, and the candidate itself, said: shown on standard error, beside the results.
#pragma once

#include <string>
#include <vector>

#include "core/json.h"

namespace fk {

void show_warnings(const std::vector<std::string>& warnings);  // the first few
void show_printed(const Json& row);  // of a repeated call, where the candidate printed something

}  // namespace fk
