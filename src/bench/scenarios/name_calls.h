// Names the calls of one step: short if an operator is called in one way, with its position in the model if in several.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "bench/scenarios/recorder.h"

namespace fk {

// Names every call `prefix`/step, with "/qkv_proj" behind it where a step calls the operator in several ways, and "-2"
// where that is not enough. Unique within an operator.
void name_calls(std::vector<RecordedCall>& calls, const std::string& prefix);

// Text as part of a name: letters, digits, dots and dashes.
std::string name_part(std::string_view text);

}  // namespace fk
