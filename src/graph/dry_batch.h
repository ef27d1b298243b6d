// DryBatch: everything a dry run of a model needs, at addresses that are never accessed: arguments, weights, states and
// the metadata of a batch of given sizes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "graph/trace_scope.h"
#include "ops/node.h"
#include "ops/workload.h"

namespace fk {

// The argument of a model that says whose logits are wanted: one token of each sequence, several (guesses are checked),
// or none (the middle of a prompt). Nothing: it has no logits.
std::optional<size_t> logits_argument(const OperatorInfo& model);

// Addresses that no memory has. Views are narrowed by arithmetic on them.
class NoMemory {
 public:
  View place(const TensorSpec& spec);

 private:
  uintptr_t next_ = uintptr_t{1} << 60;  // beyond what any process can map
};

class DryBatch {
 public:
  // Binds the weights of `root`, too. `activations` is the dtype of states without their own.
  DryBatch(Node& root, GraphPhase phase, const BatchSizes& sizes, DType activations);
  DryBatch(const DryBatch&) = delete;
  DryBatch& operator=(const DryBatch&) = delete;

  // Runs the tree; the observer sees every call.
  void run(CallObserver& observer);
  const TraceLeaves& leaves() const { return leaves_; }

 private:
  // Compositions that return a bias copy it themselves, so vectors are allocated; matrices are too large.
  View vector_or_place(const TensorSpec& spec);
  View add_leaf(const std::string& name, ValueKind kind, const View& view);
  SequenceGroup make_group(const std::string& name, int64_t sequences, int64_t tokens, int64_t pages);

  Node& root_;
  Arena vectors_, arena_;
  NoMemory no_memory_;
  TraceLeaves leaves_;
  AttentionMetadata metadata_;
  std::vector<View> states_;
  std::vector<OptView> args_;
};

}  // namespace fk
