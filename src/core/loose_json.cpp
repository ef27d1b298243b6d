#include "core/loose_json.h"

#include "core/json.h"

namespace fk {

Json parse_loosely(std::string_view text) { return Json::parse(text, nullptr, false); }

}  // namespace fk
