// Unified diff of two texts, with the least number of changed lines (Myers 1986).
#pragma once

#include <string>
#include <string_view>

namespace fk {

// Empty where the texts are equal. `context`: unchanged lines around each change.
std::string unified_diff(std::string_view before, std::string_view after, std::string_view before_name,
                         std::string_view after_name, int context = 3);

}  // namespace fk
