// flatten: a graph without bodies inside bodies.
#pragma once

#include <functional>
#include <string>

#include "graph/graph.h"

namespace fk {

// The calls of a whole pass in one body, with full paths: those of operators up to `level`, and of operators above it
// that are not composed of others.
GraphBody flatten(const Graph& graph, int level = 1);

// Whether a call of a composition, at this full path, stays a call.
using KeepCall = std::function<bool(const GraphNode& node, const std::string& path)>;
GraphBody flatten(const Graph& graph, int level, const KeepCall& keep);

}  // namespace fk
