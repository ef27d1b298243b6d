#include "graph/graph_dot.h"

#include <fmt/format.h>

#include "graph/open_bodies.h"

namespace fk {
namespace {

std::string quoted(std::string_view text) {
  std::string out = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    if (c == '\n')
      out += "\\n";
    else
      out += c;
  }
  return out + "\"";
}

bool is_drawn(const GraphValue& value) {
  return value.kind != ValueKind::kParameter && value.kind != ValueKind::kBatch;
}

class BodyDrawing {
 public:
  BodyDrawing(const GraphBody& body, size_t index) : body_(body), index_(index), maker_(body.values.size()) {}

  std::string run() {
    std::string title = fmt::format("{}, level {}", body_.op, body_.level);
    if (body_.repeats > 1) title += fmt::format(", {} times", body_.repeats);
    text_ = fmt::format("  subgraph cluster_{} {{\n    label={};\n", index_, quoted(title));
    for (ValueId id : body_.inputs) {
      const GraphValue& value = body_.values[static_cast<size_t>(id)];
      if (!is_drawn(value)) continue;
      std::string box = fmt::format("b{}v{}", index_, id);
      maker_[static_cast<size_t>(id)] = box;
      text_ +=
          fmt::format("    {} [shape=ellipse, label={}];\n", box, quoted(value.name + "\n" + value_type_text(value)));
    }
    for (size_t i = 0; i < body_.nodes.size(); ++i) add_node(i);
    for (const GraphOperand& o : body_.outputs) {
      std::string box = fmt::format("b{}out_{}", index_, &o - body_.outputs.data());
      text_ += fmt::format("    {} [shape=ellipse, style=bold, label={}];\n", box, quoted(o.name));
      add_arrow(o, box, "");
    }
    return text_ + "  }\n";
  }

 private:
  void add_node(size_t i) {
    const GraphNode& node = body_.nodes[i];
    std::string box = fmt::format("b{}n{}", index_, i), label = node_text(body_, node);
    if (!node.path.empty()) label += "\n" + node.path;
    text_ += fmt::format("    {} [shape=box{}, label={}];\n", box,
                         node.is_call() ? node.body != GraphNode::kNoBody ? ", style=bold" : "" : ", style=dashed",
                         quoted(label));
    for (const GraphOperand& o : node.inputs) add_arrow(o, box, node.is_call() ? o.name : "");
    for (const GraphOperand& o : node.outputs) maker_[static_cast<size_t>(o.value)] = box;
  }

  void add_arrow(const GraphOperand& o, const std::string& to, const std::string& name) {
    const std::string& from = maker_[static_cast<size_t>(o.value)];
    if (from.empty()) return;
    std::string label = value_type_text(body_.values[static_cast<size_t>(o.value)]);
    if (!name.empty()) label = name + "\n" + label;
    text_ += fmt::format("    {} -> {} [label={}];\n", from, to, quoted(label));
  }

  const GraphBody& body_;
  size_t index_;
  std::vector<std::string> maker_;  // by value: the box it comes from; empty where it is not drawn
  std::string text_;
};

}  // namespace

std::string value_type_text(const GraphValue& value) {
  std::string text = fmt::format("{} [", dtype_name(value.dtype));
  for (size_t i = 0; i < value.shape.size(); ++i) text += (i == 0 ? "" : ", ") + size_text(value.shape[i]);
  return text + "]";
}

std::string node_text(const GraphBody& body, const GraphNode& node) {
  if (node.kind != GraphNode::Kind::kSlice) return std::string(node.name());
  const GraphValue &from = body.values[static_cast<size_t>(node.inputs[0].value)],
                   &to = body.values[static_cast<size_t>(node.outputs[0].value)];
  std::string text = "slice [";
  for (size_t d = 0; d < node.starts.size(); ++d) {
    text += d == 0 ? "" : ", ";
    if (from.shape[d] == to.shape[d]) {
      text += ":";
      continue;
    }
    SymbolicSize end = node.starts[d];
    end.constant += to.shape[d].constant;
    for (size_t i = 0; i < kNumSizeSymbols; ++i) end.factors[i] += to.shape[d].factors[i];
    text += fmt::format("{}:{}", node.starts[d] == SymbolicSize(0) ? "" : size_text(node.starts[d]),
                        end == from.shape[d] ? "" : size_text(end));
  }
  return text + "]";
}

std::string graph_to_dot(const Graph& whole, int level) {
  Graph graph = open_bodies(whole, level);
  std::string text = fmt::format(
      "digraph {} {{\n  node [fontname=\"sans-serif\"];\n  edge [fontname=\"sans-serif\"];\n", quoted(graph.model));
  for (size_t i = graph.bodies.size(); i-- > 0;) text += BodyDrawing(graph.bodies[i], i).run();
  return text + "}\n";
}

}  // namespace fk
