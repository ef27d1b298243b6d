// What the ranks of a model must decide alike.
#pragma once

#include <cstdint>

#include "engine/model.h"

namespace fk {

// The least of all ranks' values, on each of them; of one rank its own. All ranks call it. Throws Error if a rank is
// lost.
int64_t least_of_all_ranks(int64_t value, const Model& model);

}  // namespace fk
