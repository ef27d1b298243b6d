// flatten: a graph without bodies inside bodies.
#pragma once

#include "graph/graph.h"

namespace fk {

// The calls of a whole pass in one body, with full paths: those of operators up to `level`, and of operators above it
// that are not composed of others.
GraphBody flatten(const Graph& graph, int level = 1);

}  // namespace fk
