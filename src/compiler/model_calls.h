// The kernels that a model calls, each with the shapes it is called with, from the model's graphs.
#pragma once

#include <cstdint>
#include <vector>

#include "compiler/codegen/cpp_kernel.h"
#include "graph/graph.h"

namespace fk {

struct OperatorCalls {
  const OperatorInfo* op = nullptr;
  std::vector<CallShape> shapes;  // different ones, in the order of the graphs; sizes of the batch vary
  int64_t calls = 0;              // of one pass of the first graph that has any
};

// Of the graphs of one model, which differ in their phase; L1 operators, by name.
std::vector<OperatorCalls> calls_of_model(const std::vector<Graph>& graphs);

}  // namespace fk
