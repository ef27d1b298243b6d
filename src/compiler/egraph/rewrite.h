// Rule: an equality between expressions, as a matcher that checks every premise. saturate() applies a list of rules
// until they find nothing new.
//
// Laws of all rules: the precision of an accumulator or an intermediate never drops; numbers match exactly; division of
// integers needs bounds that prove what it needs; no class is united with one of its own direct inputs. Every rule has
// tests of what it must and of what it must not match (tests/compiler/rules_test.cpp).
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/egraph/egraph.h"

namespace fk {

// What stands for a match: a class that exists, or a primitive of others.
struct Term {
  ClassId known = -1;
  algebra::Head head = {};
  std::vector<Term> inputs = {};

  Term(ClassId id) : known(id) {}  // NOLINT: a class is a term
  Term(algebra::Head h, std::vector<Term> of) : head(std::move(h)), inputs(std::move(of)) {}
};

struct Rule {
  std::string_view name;
  std::string_view law;  // what equals what, and when
  algebra::Primitive root;
  // Calls `found` for everything that equals the node, where all premises hold. Only reads the graph.
  std::function<void(const EGraph&, NodeId, const std::function<void(Term)>& found)> match;
};

// All rules of the algebra, in a fixed order.
const std::vector<Rule>& algebra_rules();

struct RuleStatistics {
  std::string_view rule;
  int64_t matches = 0;
  int64_t unions = 0;   // matches that made two classes one
  int64_t refused = 0;  // they would have united a class with one of its inputs
  double time_ns = 0;
};

struct SaturationLimits {
  int iterations = 30;
  size_t nodes = 200'000;
};

struct SaturationReport {
  std::vector<RuleStatistics> rules;  // in the order of the rules
  int iterations = 0;
  bool saturated = false;  // false: a limit came first
  double time_ns = 0;
};

SaturationReport saturate(EGraph& graph, const std::vector<Rule>& rules, const SaturationLimits& limits = {});

}  // namespace fk
