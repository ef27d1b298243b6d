#include "graph/flatten.h"

namespace fk {
namespace {

std::string joined_path(const std::string& outer, const std::string& inner) {
  if (outer.empty() || inner.empty()) return outer + inner;
  return outer + "." + inner;
}

class Flattening {
 public:
  Flattening(const Graph& graph, int level, const KeepCall& keep) : graph_(graph), level_(level), keep_(keep) {}

  GraphBody run() {
    const GraphBody& root = graph_.root();
    flat_.op = root.op;
    flat_.level = root.level;
    flat_.init = root.init;
    std::vector<ValueId> inputs;
    for (ValueId id : root.inputs) inputs.push_back(add_value(root.values[static_cast<size_t>(id)]));
    flat_.inputs = inputs;
    std::vector<ValueId> outputs = add_body(root, inputs, "");
    for (size_t i = 0; i < outputs.size(); ++i) flat_.outputs.push_back({root.outputs[i].name, outputs[i]});
    return std::move(flat_);
  }

 private:
  ValueId add_value(const GraphValue& value) {
    flat_.values.push_back(value);
    return static_cast<ValueId>(flat_.values.size() - 1);
  }

  // Returns the outputs of the body, whose inputs have these values.
  std::vector<ValueId> add_body(const GraphBody& body, const std::vector<ValueId>& inputs, const std::string& path) {
    std::vector<ValueId> now(body.values.size(), -1);
    for (size_t i = 0; i < inputs.size(); ++i) now[static_cast<size_t>(body.inputs[i])] = inputs[i];
    for (const GraphNode& node : body.nodes) {
      std::vector<ValueId> given;
      for (const GraphOperand& o : node.inputs) given.push_back(now[static_cast<size_t>(o.value)]);
      if (node.body != GraphNode::kNoBody && node.level > level_ &&
          !(keep_ && keep_(node, joined_path(path, node.path)))) {
        std::vector<ValueId> results =
            add_body(graph_.bodies[static_cast<size_t>(node.body)], given, joined_path(path, node.path));
        for (size_t i = 0; i < results.size(); ++i) now[static_cast<size_t>(node.outputs[i].value)] = results[i];
        continue;
      }
      GraphNode copy = node;
      copy.body = GraphNode::kNoBody;
      if (copy.is_call()) copy.path = joined_path(path, node.path);
      for (size_t i = 0; i < given.size(); ++i) copy.inputs[i].value = given[i];
      for (GraphOperand& o : copy.outputs) {
        ValueId id = add_value(body.values[static_cast<size_t>(o.value)]);
        now[static_cast<size_t>(o.value)] = id;
        o.value = id;
      }
      flat_.nodes.push_back(std::move(copy));
    }
    std::vector<ValueId> outputs;
    for (const GraphOperand& o : body.outputs) outputs.push_back(now[static_cast<size_t>(o.value)]);
    return outputs;
  }

  const Graph& graph_;
  int level_;
  const KeepCall& keep_;
  GraphBody flat_;
};

}  // namespace

GraphBody flatten(const Graph& graph, int level) { return flatten(graph, level, {}); }

GraphBody flatten(const Graph& graph, int level, const KeepCall& keep) { return Flattening(graph, level, keep).run(); }

}  // namespace fk
