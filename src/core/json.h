// Strict JSON in and out: no comments, no NaN or Infinity, no duplicate keys, bounded depth, floats that round-trip.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "core/json_fwd.h"

namespace fk {

// `what` names the text in errors ("config.json of /models/x"). Throws Error with the position.
Json parse_json(std::string_view text, std::string_view what);
Json parse_json_file(const std::string& path);

// Throws Error if a number is not finite (JSON cannot express it, and `null` would be wrong). Bytes that are not UTF-8
// become U+FFFD, controls of a terminal are escaped.
std::string dump_json(const Json& value, int indent = 2);

}  // namespace fk
