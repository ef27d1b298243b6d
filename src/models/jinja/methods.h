// The methods of strings, lists and dicts that templates call, as Python has them.
#pragma once

#include <optional>
#include <string_view>

#include "models/jinja/value.h"

namespace fk::jinja {

// None where values of that type have no such method. Methods that would change a list or a dict are refused when they
// are called, as in transformers, whose sandbox does not allow it.
std::optional<Value> method(const Value& of, std::string_view name);

}  // namespace fk::jinja
