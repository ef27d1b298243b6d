#include "graph/open_bodies.h"

#include <algorithm>

namespace fk {

Graph open_bodies(const Graph& graph, int level) {
  Graph open{graph.model, graph.phase, {}};
  std::vector<int> now_at;
  for (const GraphBody& body : graph.bodies) {
    bool stays = body.level > level || &body == &graph.root();
    now_at.push_back(stays ? static_cast<int>(open.bodies.size()) : GraphNode::kNoBody);
    if (!stays) continue;
    open.bodies.push_back(body);
    for (GraphNode& node : open.bodies.back().nodes)
      if (node.body != GraphNode::kNoBody) node.body = now_at[static_cast<size_t>(node.body)];
  }
  return open;
}

std::vector<SizeSymbol> used_symbols(const Graph& graph) {
  std::vector<SizeSymbol> used;
  for (size_t i = 0; i < kNumSizeSymbols; ++i) {
    auto symbol = static_cast<SizeSymbol>(i);
    auto in = [&](const std::vector<SymbolicSize>& sizes) {
      return std::any_of(sizes.begin(), sizes.end(), [&](const SymbolicSize& s) { return s.uses(symbol); });
    };
    bool found = std::any_of(graph.bodies.begin(), graph.bodies.end(), [&](const GraphBody& body) {
      return std::any_of(body.values.begin(), body.values.end(), [&](const GraphValue& v) { return in(v.shape); }) ||
             std::any_of(body.nodes.begin(), body.nodes.end(), [&](const GraphNode& n) { return in(n.starts); });
    });
    if (found) used.push_back(symbol);
  }
  return used;
}

}  // namespace fk
