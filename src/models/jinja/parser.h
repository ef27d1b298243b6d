// From the tokens of a template to functions that render it.
#pragma once

#include <string>
#include <vector>

#include "models/jinja/lexer.h"
#include "models/jinja/runtime.h"

namespace fk::jinja {

// Throws Fault, with the line in `line`; a construct that is not supported is named.
std::vector<Statement> parse(std::vector<Token> tokens, int& line);

}  // namespace fk::jinja
