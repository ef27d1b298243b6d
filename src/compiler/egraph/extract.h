// extract: one expression for each class, the cheapest or a random one.
#pragma once

#include <functional>
#include <vector>

#include "compiler/egraph/egraph.h"

namespace fk {

// What it costs to compute a node whose inputs are there; positive, so that no class needs itself.
using NodeCost = std::function<double(const EGraph&, NodeId)>;

struct Extraction {
  std::vector<algebra::Expr> exprs;  // of the roots; equal classes are one object
  double cost = 0;                   // of all nodes in them, each counted once
};

// By class, the node with the least cost of the whole tree below it; of equal ones the one that was added first.
Extraction extract(const EGraph& graph, const std::vector<ClassId>& roots, const NodeCost& cost);

// Elements that are computed, weighted by the function; moving them costs a part of that.
double element_cost(const EGraph& graph, NodeId node);
// A cost that differs from seed to seed for the same node: extraction with it is a random choice.
NodeCost random_cost(uint64_t seed);

}  // namespace fk
