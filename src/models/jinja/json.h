// Values from and to JSON, written as Python's json.dumps writes them.
#pragma once

#include <optional>
#include <string>

#include "core/json_fwd.h"
#include "models/jinja/value.h"

namespace fk::jinja {

struct JsonStyle {
  bool ascii = false;   // other characters as \uXXXX
  bool sorted = false;  // the keys of dicts
  std::optional<std::string> indent;
  std::string between = ", ", after_key = ": ";
};
std::string to_json(const Value& value, const JsonStyle& style = {});

Value from_json(const Json& json);  // entries of objects keep their order

}  // namespace fk::jinja
