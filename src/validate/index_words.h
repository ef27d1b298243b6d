// Describes in words which indexes of a dimension are chosen: "row 6, the last of 7", "every 4th column, from 3 on".
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace fk {

// `chosen` has one entry per index of the dimension, `name` is the name of one index ("column"). Empty if all or none
// are chosen.
std::string index_words(const std::vector<bool>& chosen, std::string_view name);

}  // namespace fk
