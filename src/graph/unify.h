// Symbols from samples: a graph with symbolic sizes from several that were traced at different sizes.
#pragma once

#include <vector>

#include "graph/graph.h"

namespace fk {

// The first has sizes of its own; the next ones differ from it in one symbol each, in order; in the last all differ.
std::vector<BatchSizes> sample_sizes(GraphPhase phase);

// Of graphs traced at sample_sizes(). Throws Error that names the call where they make different calls, or where a size
// is not a constant plus multiples of the batch's sizes.
Graph unify_graphs(std::vector<Graph> traces, const std::vector<BatchSizes>& sizes);

}  // namespace fk
