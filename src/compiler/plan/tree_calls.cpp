#include "compiler/plan/tree_calls.h"

#include <map>
#include <string>
#include <utility>

#include "core/error.h"
#include "graph/flatten.h"
#include "ops/registry.h"

namespace fk {

TreeCalls calls_of_tree(const Graph& graph, Node& root) {
  TreeCalls calls;
  // Several nodes may have one place and operator, with other constructor arguments: queries and keys of MLA.
  std::multimap<std::pair<std::string, std::string_view>, Node*> tree;
  walk(root, [&](const Node& node, int) {
    tree.emplace(std::pair{node.path(), node.info().name}, const_cast<Node*>(&node));  // NOLINT: `root` is not const
  });
  auto node_at = [&](const std::string& path, const GraphNode& call) {
    auto [first, last] = tree.equal_range({path, call.op});
    for (auto at = first; at != last; ++at)
      if (at->second->init() == call.init) return at->second;
    throw Error("The graph calls {} at '{}', which the model's tree does not have.", call.op, path);
  };
  // A candidate for a composition replaces its parts, wherever it is tried first.
  calls.flat = flatten(graph, 1, [&](const GraphNode& node, const std::string& path) {
    return !node_at(path, node)->implementations().front()->any_device;
  });
  for (const GraphNode& node : calls.flat.nodes)
    calls.nodes.push_back(node.is_call() ? node_at(node.path, node) : nullptr);
  return calls;
}

}  // namespace fk
