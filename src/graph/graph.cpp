#include "graph/graph.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <span>

#include "core/error.h"

namespace fk {
namespace {

constexpr std::array<std::string_view, 4> kPhaseNames = {"prefill", "decode", "mixed", "encode"};
constexpr std::array<std::string_view, 5> kValueKindNames = {"argument", "parameter", "state", "batch", "result"};

const GraphOperand* operand_named(const std::vector<GraphOperand>& operands, std::string_view name) {
  auto found = std::find_if(operands.begin(), operands.end(), [&](const GraphOperand& o) { return o.name == name; });
  return found == operands.end() ? nullptr : &*found;
}

// Checks one body; `earlier` are those it may call.
class BodyCheck {
 public:
  BodyCheck(const GraphBody& body, std::span<const GraphBody> earlier)
      : body_(body), earlier_(earlier), defined_(body.values.size(), false) {}

  void run() {
    for (ValueId id : body_.inputs) {
      define(id, body_.op);
      if (body_.values[static_cast<size_t>(id)].kind == ValueKind::kResult) fail("lists a result as its input");
    }
    for (const GraphNode& node : body_.nodes) {
      for (const GraphOperand& o : node.inputs) use(o, node.name());
      for (const GraphOperand& o : node.outputs) {
        define(o.value, node.name());
        if (body_.values[static_cast<size_t>(o.value)].kind != ValueKind::kResult) fail("writes one of its inputs");
      }
      if (node.body != GraphNode::kNoBody) check_call(node);
      if (node.kind == GraphNode::Kind::kSlice) check_slice(node);
    }
    for (const GraphOperand& o : body_.outputs) use(o, body_.op);
    if (std::find(defined_.begin(), defined_.end(), false) != defined_.end()) fail("has a value that nothing defines");
  }

 private:
  [[noreturn]] void fail(std::string_view what) const { throw Error("The graph's body of {} {}.", body_.op, what); }

  void in_range(ValueId id, std::string_view by) const {
    if (id < 0 || static_cast<size_t>(id) >= body_.values.size())
      fail(fmt::format("has no value {}, which {} names", id, by));
  }
  void define(ValueId id, std::string_view by) {
    in_range(id, by);
    if (defined_[static_cast<size_t>(id)]) fail(fmt::format("defines value {} twice, the second time by {}", id, by));
    defined_[static_cast<size_t>(id)] = true;
  }
  void use(const GraphOperand& o, std::string_view by) const {
    in_range(o.value, by);
    if (!defined_[static_cast<size_t>(o.value)])
      fail(fmt::format("uses value {} before it is defined, as '{}' of {}", o.value, o.name, by));
  }

  void check_call(const GraphNode& node) const {
    if (node.body < 0 || static_cast<size_t>(node.body) >= earlier_.size())
      fail(fmt::format("calls body {} of {}, which does not come before it", node.body, node.op));
    const GraphBody& called = earlier_[static_cast<size_t>(node.body)];
    if (called.op != node.op || called.init != node.init || called.inputs.size() != node.inputs.size() ||
        called.outputs.size() != node.outputs.size())
      fail(fmt::format("has a call of {} at '{}' that does not fit its body", node.op, node.path));
    for (size_t i = 0; i < node.inputs.size(); ++i)
      fits(node.inputs[i], called.values[static_cast<size_t>(called.inputs[i])].name, called, called.inputs[i], node);
    for (size_t i = 0; i < node.outputs.size(); ++i)
      fits(node.outputs[i], called.outputs[i].name, called, called.outputs[i].value, node);
  }
  void fits(const GraphOperand& o, const std::string& name, const GraphBody& called, ValueId inside,
            const GraphNode& node) const {
    const GraphValue &a = body_.values[static_cast<size_t>(o.value)], &b = called.values[static_cast<size_t>(inside)];
    if (o.name != name || a.dtype != b.dtype || a.shape != b.shape)
      fail(fmt::format("passes '{}' to {} at '{}' in another shape or dtype than its body has", o.name, node.op,
                       node.path));
  }

  void check_slice(const GraphNode& node) const {
    if (node.inputs.size() != 1 || node.outputs.size() != 1 ||
        node.starts.size() != body_.values[static_cast<size_t>(node.inputs[0].value)].shape.size() ||
        node.starts.size() != body_.values[static_cast<size_t>(node.outputs[0].value)].shape.size())
      fail("has a slice whose dimensions differ");
  }

  const GraphBody& body_;
  std::span<const GraphBody> earlier_;
  std::vector<bool> defined_;
};

}  // namespace

std::string_view phase_name(GraphPhase phase) { return kPhaseNames[static_cast<size_t>(phase)]; }

std::string_view value_kind_name(ValueKind kind) { return kValueKindNames[static_cast<size_t>(kind)]; }

std::optional<ValueKind> value_kind_named(std::string_view name) {
  for (size_t i = 0; i < kValueKindNames.size(); ++i)
    if (kValueKindNames[i] == name) return static_cast<ValueKind>(i);
  return std::nullopt;
}

GraphPhase phase_from_name(std::string_view name) {
  for (size_t i = 0; i < kPhaseNames.size(); ++i)
    if (kPhaseNames[i] == name) return static_cast<GraphPhase>(i);
  throw UsageError("There is no phase '{}'; there are {}.", name, fmt::join(kPhaseNames, ", "));
}

std::string_view GraphNode::name() const {
  switch (kind) {
    case Kind::kSlice:
      return "slice";
    case Kind::kReshape:
      return "reshape";
    case Kind::kConcat:
      return "concat";
    case Kind::kCall:
      break;
  }
  return op;
}

const GraphOperand* GraphNode::input(std::string_view operand) const { return operand_named(inputs, operand); }
const GraphOperand* GraphNode::output(std::string_view operand) const { return operand_named(outputs, operand); }

void check_graph(const Graph& graph) {
  if (graph.bodies.empty()) throw Error("The graph has no bodies.");
  for (size_t i = 0; i < graph.bodies.size(); ++i) BodyCheck(graph.bodies[i], std::span(graph.bodies).first(i)).run();
  std::vector<int64_t> repeats = count_repeats(graph);
  for (size_t i = 0; i < graph.bodies.size(); ++i)
    if (graph.bodies[i].repeats != repeats[i])
      throw Error("The graph's body of {} runs {} times, not {}.", graph.bodies[i].op, repeats[i],
                  graph.bodies[i].repeats);
}

std::vector<int64_t> count_repeats(const Graph& graph) {
  std::vector<int64_t> repeats(graph.bodies.size(), 0);
  if (repeats.empty()) return repeats;
  repeats.back() = 1;
  for (size_t i = graph.bodies.size(); i-- > 0;)
    for (const GraphNode& node : graph.bodies[i].nodes)
      if (node.body != GraphNode::kNoBody) repeats[static_cast<size_t>(node.body)] += repeats[i];
  return repeats;
}

int64_t count_kernel_calls(const Graph& graph) {
  std::vector<int64_t> repeats = count_repeats(graph);
  int64_t calls = 0;
  for (size_t i = 0; i < graph.bodies.size(); ++i)
    for (const GraphNode& node : graph.bodies[i].nodes)
      if (node.is_call() && node.body == GraphNode::kNoBody) calls += repeats[i];
  return calls;
}

}  // namespace fk
