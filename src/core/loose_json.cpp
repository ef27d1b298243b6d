#include "core/loose_json.h"

#include <nlohmann/json.hpp>

namespace fk {

Json parse_loosely(std::string_view text) { return Json::parse(text, nullptr, false); }

}  // namespace fk
