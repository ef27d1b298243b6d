// The filters that work on the elements of a list or the entries of a dict.
#pragma once

#include <string_view>

#include "models/jinja/value.h"

namespace fk::jinja {

using Filter = Value (*)(const Value& input, const Arguments& given);

Filter list_filter(std::string_view name);  // null where there is none of that name

}  // namespace fk::jinja
