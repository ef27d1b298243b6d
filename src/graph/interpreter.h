// GraphInterpreter: runs a graph with real weights and states, kernel by kernel, by the registry's implementations.
//
// It is the reference for everything that changes a graph: every result has memory of its own, nothing is overwritten
// but the states, and nothing is fused.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/memory.h"
#include "graph/graph.h"
#include "ops/node.h"

namespace fk {

// The sizes of a batch, from its metadata, the states of the model and its arguments.
BatchSizes batch_sizes(const AttentionMetadata& batch, const std::vector<StateSpec>& specs,
                       std::span<const View> states, const OperatorInfo& model, Args args);

// Metadata by its name in a graph: "batch.slot_mapping".
View batch_view(const AttentionMetadata& batch, std::string_view name);

class GraphInterpreter {
 public:
  // `weight` returns the weights by their full paths; `states` are those of the model's tree, in the order of
  // Context::states.
  GraphInterpreter(const Graph& graph, const Node::Lookup& weight, std::vector<StateSpec> states, Device device = kCpu);

  // A whole call of the model: every argument of its operator, outputs included. Throws Error where the batch has
  // another phase than the graph, or a tensor another shape than the graph says.
  void run(Context& ctx, Args args);

 private:
  struct Step;  // the state of one run

  void run_node(Step& step, size_t index);
  void call(Step& step, size_t index);

  GraphPhase phase_;
  GraphBody flat_;
  std::vector<StateSpec> states_;
  Device device_;
  std::vector<View> weights_;                     // by value; nothing for those that are not weights
  std::vector<std::unique_ptr<Node>> operators_;  // of the calls among flat_.nodes; nothing for other nodes
  Arena values_;
};

}  // namespace fk
