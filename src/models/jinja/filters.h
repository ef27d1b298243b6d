// The filters of templates: `value | name(arguments)`.
#pragma once

#include <string_view>

#include "models/jinja/value.h"

namespace fk::jinja {

Value apply_filter(std::string_view name, const Value& input, const Arguments& given);

}  // namespace fk::jinja
