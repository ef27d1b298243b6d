// Batches for trials of attention: how many sequences and keys there are, and which tokens belong to which sequence.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

#include "core/tensor.h"
#include "graph/graph.h"

namespace fk {

// A batch with this many rows of queries. One that is timed has a thousand keys; one that is checked has fewer, since
// the definition is evaluated for every pair of a query and a key.
BatchSizes attention_sizes(GraphPhase phase, int64_t rows, bool timed);

// Fills an argument of this call that says how long sequences are; false: it says something else. `arg`: the arguments
// by name. All arguments that are filled with one seed fit together.
bool fill_lengths(std::string_view name, const View& view, const std::function<OptView(std::string_view)>& arg,
                  uint64_t seed);

}  // namespace fk
