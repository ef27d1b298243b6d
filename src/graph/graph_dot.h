// Graphs as pictures: the DOT language of Graphviz.
#pragma once

#include <string>

#include "graph/graph.h"

namespace fk {

// One box for each body with its calls, and an arrow for each value. Weights are not drawn. `level` as in
// graph_to_json().
std::string graph_to_dot(const Graph& graph, int level = 1);

// As texts name a value: "bf16 [T, 64]".
std::string value_type_text(const GraphValue& value);
// "slice [:, 64:96]" of a slice, the operator of a call; "reshape" and "concat" as they are.
std::string node_text(const GraphBody& body, const GraphNode& node);

}  // namespace fk
