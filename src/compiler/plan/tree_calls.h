// The calls of a graph, each with the node of a model's tree that makes it.
#pragma once

#include <vector>

#include "graph/graph.h"
#include "ops/node.h"

namespace fk {

struct TreeCalls {
  GraphBody flat;
  std::vector<Node*> nodes;  // of the calls among flat.nodes; nothing for others
};

// Compositions whose first implementation replaces their parts (candidates, fused kernels of the device) stay calls.
// Throws Error where the tree is not that of the graph.
TreeCalls calls_of_tree(const Graph& graph, Node& root);

}  // namespace fk
