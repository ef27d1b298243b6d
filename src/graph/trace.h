// The graph of a model, from dry runs of its tree at several sizes: what differs between them is symbolic.
#pragma once

#include <string>

#include "graph/graph.h"
#include "ops/node.h"

namespace fk {

// `root` is a tree whose implementations are compositions and operators that are never called (BuildOptions::oracle
// keeps candidates and fused kernels out). It is bound to weights that do not exist. Throws Error that names the call
// where a composition is not a function of its inputs, or where a size does not follow from those of the batch.
Graph trace_graph(Node& root, const std::string& model, GraphPhase phase, DType activations);

// One dry run, with the sizes of that batch in place of symbols. Its bodies are not shared.
Graph trace_at(Node& root, const std::string& model, GraphPhase phase, DType activations, const BatchSizes& sizes);

// Stores equal bodies once, and counts how often each runs.
void share_bodies(Graph& graph);

}  // namespace fk
