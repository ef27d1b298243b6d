#include "compiler/model_calls.h"

#include <algorithm>
#include <map>
#include <string>

#include "compiler/codegen/loop_nest.h"
#include "compiler/program.h"
#include "graph/flatten.h"
#include "ops/registry.h"

namespace fk {
namespace {

bool same_shape(const CallShape& a, const CallShape& b) {
  auto same = [](const OptView& x, const OptView& y) {
    if (x.has_value() != y.has_value() || !x) return x.has_value() == y.has_value();
    if (x->dtype() != y->dtype() || x->rank() != y->rank()) return false;
    for (int d = 0; d < x->rank(); ++d)
      if (x->size(d) != y->size(d) && (x->size(d) < kVaryingExtent || y->size(d) < kVaryingExtent)) return false;
    return true;
  };
  return a.init == b.init && std::equal(a.given.begin(), a.given.end(), b.given.begin(), b.given.end(), same);
}

}  // namespace

std::vector<OperatorCalls> calls_of_model(const std::vector<Graph>& graphs) {
  const BatchSizes sizes = varying_sizes();
  std::map<std::string, OperatorCalls> by_name;
  for (const Graph& graph : graphs) {
    GraphBody flat = flatten(graph);
    std::map<std::string, int64_t> counts;
    for (const GraphNode& node : flat.nodes) {
      if (!node.is_call() || node.level != 1) continue;
      ++counts[node.op];
      OperatorCalls& calls = by_name[node.op];
      calls.op = &Registry::instance().at(node.op);
      CallShape shape{node.init, inputs_of_call(node, [&](ValueId id) {
                        const GraphValue& value = flat.values[static_cast<size_t>(id)];
                        std::vector<int64_t> extents;
                        for (const SymbolicSize& s : value.shape) extents.push_back(s.at(sizes));
                        return TensorSpec{Shape(extents), value.dtype};
                      })};
      bool known = std::any_of(calls.shapes.begin(), calls.shapes.end(),
                               [&](const CallShape& s) { return same_shape(s, shape); });
      if (!known) calls.shapes.push_back(std::move(shape));
    }
    for (const auto& [op, count] : counts)
      if (by_name[op].calls == 0) by_name[op].calls = count;
  }
  std::vector<OperatorCalls> list;
  for (auto& [name, calls] : by_name) list.push_back(std::move(calls));
  return list;
}

}  // namespace fk
