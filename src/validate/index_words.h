// Says in words which indexes of a dimension are meant: "row 6, the last of 7", "every 4th column, from 3 on".
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace fk {

// `chosen` has one entry per index of the dimension, `name` is what one index is called ("column"). Empty where all or
// none are chosen.
std::string index_words(const std::vector<bool>& chosen, std::string_view name);

}  // namespace fk
