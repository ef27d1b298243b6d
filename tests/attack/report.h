// The results of an attack as a text table, as Markdown and as JSON.
#pragma once

#include <string>
#include <vector>

#include "core/json.h"
#include "tests/attack/search.h"

namespace fk::attack {

std::string to_text(const std::vector<Finding>& findings);
std::string to_markdown(const std::vector<Finding>& findings);
Json to_json(const std::vector<Finding>& findings);

}  // namespace fk::attack
