#include "compiler/egraph/extract.h"

#include <cmath>
#include <map>

#include "core/check.h"

namespace fk {

using algebra::Expr;
using algebra::Function;
using algebra::Head;
using algebra::Primitive;

Extraction extract(const EGraph& graph, const std::vector<ClassId>& roots, const NodeCost& cost) {
  std::vector<ClassId> classes = graph.classes();
  size_t size = classes.empty() ? 0 : static_cast<size_t>(classes.back()) + 1;
  std::vector<double> least(size, INFINITY);
  std::vector<NodeId> best(size, -1);
  for (bool changed = true; changed;) {
    changed = false;
    for (ClassId c : classes)
      for (NodeId n : graph.nodes(c)) {
        double total = cost(graph, n);
        for (ClassId x : graph.node(n).inputs) total += least[static_cast<size_t>(graph.find(x))];
        // Costs of trees are sums of many roundings; without a margin two of them could take turns for ever.
        if (!(total < least[static_cast<size_t>(c)] * (1 - 1e-12))) continue;
        least[static_cast<size_t>(c)] = total;
        best[static_cast<size_t>(c)] = n;
        changed = true;
      }
  }
  Extraction result;
  std::map<ClassId, Expr> done;
  auto build = [&](auto&& self, ClassId c) -> Expr {
    c = graph.find(c);
    if (auto at = done.find(c); at != done.end()) return at->second;
    NodeId n = best[static_cast<size_t>(c)];
    FK_CHECK(n >= 0, "a class has no node that can be computed");
    std::vector<Expr> inputs;
    for (ClassId x : graph.node(n).inputs) inputs.push_back(self(self, x));
    result.cost += cost(graph, n);
    return done.emplace(c, algebra::make_expr(graph.head(n), std::move(inputs))).first->second;
  };
  for (ClassId c : roots) result.exprs.push_back(build(build, c));
  return result;
}

double element_cost(const EGraph& graph, NodeId node) {
  const Head& head = graph.head(node);
  auto elements = static_cast<double>(algebra::count_elements(head.shape)) + 1;
  switch (head.primitive) {
    case Primitive::kInput:
    case Primitive::kConstant:
    case Primitive::kTable:
    case Primitive::kIota:
      return 1e-3;
    case Primitive::kView:
    case Primitive::kReshape:
      return 0.01 * elements;
    case Primitive::kReduce:
    case Primitive::kScan:
      return static_cast<double>(algebra::count_elements(graph.facts(graph.node(node).inputs[0]).shape)) + 1;
    case Primitive::kMap: {
      bool slow = head.function >= Function::kExp && head.function <= Function::kErfc;
      return elements * (slow || head.is(Function::kDivide) ? 4 : 1);
    }
    default:
      return elements;
  }
}

NodeCost random_cost(uint64_t seed) {
  return [seed](const EGraph&, NodeId n) {
    uint64_t x = seed * 0x9e3779b97f4a7c15u + static_cast<uint64_t>(n) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 30)) * 0x94d049bb133111ebu;
    x = (x ^ (x >> 27)) * 0x9e3779b97f4a7c15u;
    return 0.01 + static_cast<double>(x >> 40) * 0x1p-24;
  };
}

}  // namespace fk
