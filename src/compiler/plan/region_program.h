// RegionProgram: the calls of a region as expressions.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "compiler/codegen/product_program.h"
#include "compiler/egraph/rewrite.h"
#include "compiler/plan/region.h"
#include "compiler/program.h"
#include "ops/algebra/expr.h"

namespace fk {

// Inputs of the region are x0, x1, ..., its outputs y0, y1, ..., all other results r0, r1, ...: so regions that compute
// the same have the same program.
struct RegionProgram {
  std::string refusal;                      // why there is none; empty: there is
  std::vector<algebra::NamedExpr> results;  // of each call in order, in terms of inputs and of earlier results
  std::set<std::string> locals;             // the results r0, r1, ...
};

// Keeps the expression of each different call, since finding the cheapest takes time.
class RegionPrograms {
 public:
  // At the sizes of one batch, or for any.
  explicit RegionPrograms(const GraphBody& flat, const BatchSizes& sizes = varying_sizes())
      : flat_(flat), sizes_(sizes) {}

  RegionProgram of(const Region& region) { return of(region, {}, nullptr); }
  // Calls of linear among `nodes` are not opened: they are added to `products`, and results are in terms of p0, p1, ...
  RegionProgram of(const Region& region, const std::set<size_t>& nodes, std::vector<Product>* products);
  const std::vector<RuleStatistics>& rules() const { return rules_; }  // what they did so far
  // Each output in terms of the inputs alone, before it is rounded: what the region means.
  static std::vector<algebra::NamedExpr> meaning(const RegionProgram& program);

 private:
  struct CallMeaning {
    std::string refusal;
    std::vector<algebra::NamedExpr> results;  // in terms of the names of its operands
  };
  const CallMeaning& call_meaning(const GraphNode& node);
  const GraphValue& value(ValueId id) const { return flat_.values[static_cast<size_t>(id)]; }

  Product product_of(const GraphNode& node, const Region& region, const std::map<ValueId, algebra::Expr>& now) const;

  algebra::Extents extents(ValueId id) const;
  algebra::Expr moved(const GraphNode& node, algebra::Expr x) const;

  const GraphBody& flat_;
  const BatchSizes sizes_;
  std::map<std::string, CallMeaning> calls_;
  std::vector<RuleStatistics> rules_;
};

}  // namespace fk
