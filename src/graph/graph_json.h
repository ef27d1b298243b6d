// Graphs as JSON, and back.
#pragma once

#include "core/json_fwd.h"
#include "graph/graph.h"

namespace fk {

// `level`: only bodies of operators above it; calls of others have no body.
Json graph_to_json(const Graph& graph, int level = 1);
// Throws Error that names what is missing or wrong; the result has passed check_graph.
Graph graph_from_json(const Json& json);

}  // namespace fk
