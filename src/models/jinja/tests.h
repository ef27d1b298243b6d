// The tests of `is`: defined, string, mapping, ...
#pragma once

#include <string_view>

#include "models/jinja/value.h"

namespace fk::jinja {

bool apply_test(std::string_view name, const Value& value, const Arguments& given);

}  // namespace fk::jinja
