// The name Json alone, for headers that only mention it: the type itself (core/json.h) takes seconds to parse.
#pragma once

#include <nlohmann/json_fwd.hpp>

namespace fk {

using Json = nlohmann::ordered_json;

}  // namespace fk
