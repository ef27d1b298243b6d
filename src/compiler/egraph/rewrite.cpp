#include "compiler/egraph/rewrite.h"

#include <algorithm>
#include <chrono>

namespace fk {
namespace {

double saturation_ns() {
  return static_cast<double>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
          .count());
}

ClassId add_term(EGraph& graph, const Term& term) {
  if (term.known >= 0) return term.known;
  std::vector<ClassId> inputs;
  for (const Term& t : term.inputs) inputs.push_back(add_term(graph, t));
  return graph.add(term.head, std::move(inputs));
}

// Whether one of the classes has a node with the other as an input. Such a union would make an expression a part of
// itself, as an identity around its input does, and every extraction would have to avoid it.
bool wraps(const EGraph& graph, ClassId outer, ClassId inner) {
  for (NodeId n : graph.nodes(outer))
    for (ClassId c : graph.node(n).inputs)
      if (graph.find(c) == inner) return true;
  return false;
}

struct Match {
  size_t rule;
  ClassId of;
  Term term;
};

}  // namespace

SaturationReport saturate(EGraph& graph, const std::vector<Rule>& rules, const SaturationLimits& limits) {
  SaturationReport report;
  for (const Rule& rule : rules) report.rules.push_back({rule.name});
  const double start = saturation_ns();
  graph.rebuild();
  while (report.iterations < limits.iterations) {
    ++report.iterations;
    // All matches are found in the same graph, so that their order does not matter.
    std::vector<Match> matches;
    for (size_t r = 0; r < rules.size(); ++r) {
      const double begin = saturation_ns();
      for (NodeId n : graph.nodes_of(rules[r].root))
        rules[r].match(graph, n, [&](Term term) { matches.push_back({r, graph.class_of(n), std::move(term)}); });
      report.rules[r].time_ns += saturation_ns() - begin;
    }
    const size_t nodes_before = graph.num_nodes_ever();
    bool changed = false;
    for (const Match& m : matches) {
      const double begin = saturation_ns();
      RuleStatistics& statistics = report.rules[m.rule];
      ++statistics.matches;
      ClassId of = graph.find(m.of), equal = graph.find(add_term(graph, m.term));
      if (of != equal && (wraps(graph, of, equal) || wraps(graph, equal, of))) {
        ++statistics.refused;
      } else if (graph.unite(of, equal)) {
        ++statistics.unions;
        changed = true;
      }
      statistics.time_ns += saturation_ns() - begin;
      if (graph.num_nodes_ever() > limits.nodes) break;
    }
    graph.rebuild();
    if (graph.num_nodes_ever() > limits.nodes) break;
    if (!changed && graph.num_nodes_ever() == nodes_before) {
      report.saturated = true;
      break;
    }
  }
  report.time_ns = saturation_ns() - start;
  return report;
}

}  // namespace fk
