// Program: one pass of a model, at the sizes of one batch, as expressions of its inputs (ops/algebra/expr.h).
//
// Inputs have the names of the flat graph: arguments of the model, full paths of weights and states, metadata of the
// batch.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "ops/algebra/evaluate.h"
#include "ops/forward_context.h"

namespace fk {

struct Program {
  std::vector<algebra::NamedExpr> results;  // outputs of the model and its states after the pass

  std::vector<algebra::Expr> exprs() const;
};

// Sizes of a batch for kernels that are written for batches of any size: larger than every constant of a model, and
// different for each symbol.
BatchSizes varying_sizes();

// Inputs and states of a call in the order of its arguments, with the shapes and dtypes that `spec` gives their values;
// there is nothing to read behind them.
std::vector<OptView> inputs_of_call(const GraphNode& node, const std::function<TensorSpec(ValueId)>& spec);

// Calls for which `open` returns true are replaced by their definitions, where they have one. All others are calls of
// opaque operators.
Program make_program(const Graph& graph, const BatchSizes& sizes, const std::function<bool(const GraphNode&)>& open);

// Evaluates calls of operators by their oracles, on the values of this batch; for Environment::call.
class OracleCalls {
 public:
  explicit OracleCalls(const AttentionMetadata* batch) : batch_(batch) {}
  algebra::Values operator()(const algebra::Expr& call, const std::vector<algebra::Values>& inputs) const;

 private:
  const AttentionMetadata* batch_;
};

}  // namespace fk
