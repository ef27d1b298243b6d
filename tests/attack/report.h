// What an attack found, as a table for people, as Markdown for documents and as JSON for programs.
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
