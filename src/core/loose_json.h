// JSON of other programs, which need not be JSON. Compiled once: each object that instantiates the library's own parser
// takes 1.8 s longer.
#pragma once

#include <string_view>

#include "core/json_fwd.h"

namespace fk {

// A discarded value (Json::is_discarded) where the text is no JSON. Unlike parse_json it takes duplicate keys, the last of
// which counts.
Json parse_loosely(std::string_view text);

}  // namespace fk
