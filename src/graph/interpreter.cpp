#include "graph/interpreter.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/error.h"
#include "graph/dry_batch.h"
#include "graph/flatten.h"
#include "graph/graph_dot.h"
#include "ops/registry.h"

namespace fk {
namespace {

Shape shape_at(const GraphValue& value, const BatchSizes& sizes) {
  std::vector<int64_t> extents;
  for (const SymbolicSize& s : value.shape) extents.push_back(s.at(sizes));
  return Shape(extents);
}

[[noreturn]] void throw_misfit(const GraphValue& value, const View& given, const TensorSpec& wanted) {
  throw Error("'{}' is {}, and the graph needs {}{}.", value.name, given.str(), dtype_name(wanted.dtype),
              wanted.shape.str());
}

void check_phase(GraphPhase phase, const AttentionMetadata* batch) {
  bool decodes = batch != nullptr && batch->decode.num_sequences > 0;
  bool prefills = batch != nullptr && batch->prefill.num_sequences > 0;
  bool fits = phase == GraphPhase::kMixed    ? decodes && prefills
              : phase == GraphPhase::kDecode ? decodes && !prefills
                                             : prefills && !decodes;
  if (!fits)
    throw Error("The graph is of the phase {}, and the batch has {} decoding and {} prefilling sequences.",
                phase_name(phase), batch == nullptr ? 0 : batch->decode.num_sequences,
                batch == nullptr ? 0 : batch->prefill.num_sequences);
}

}  // namespace

View batch_view(const AttentionMetadata& batch, std::string_view name) {
  const auto of_group = [&](const SequenceGroup& group, std::string_view part) -> const View* {
    return part == "cu_seqlens_q"   ? &group.cu_seqlens_q
           : part == "cu_seqlens_k" ? &group.cu_seqlens_k
           : part == "seq_lens"     ? &group.seq_lens
           : part == "block_table"  ? &group.block_table
           : part == "state_slots"  ? &group.state_slots
                                    : nullptr;
  };
  constexpr std::string_view kDecode = "batch.decode.", kPrefill = "batch.prefill.";
  const View* found = nullptr;
  if (name == "batch.slot_mapping") found = &batch.slot_mapping;
  if (name.starts_with(kDecode)) found = of_group(batch.decode, name.substr(kDecode.size()));
  if (name.starts_with(kPrefill)) found = of_group(batch.prefill, name.substr(kPrefill.size()));
  if (found == nullptr) throw Error("A batch has no metadata named '{}'.", name);
  return *found;
}

BatchSizes batch_sizes(const AttentionMetadata& batch, const std::vector<StateSpec>& specs,
                       std::span<const View> states, const OperatorInfo& model, Args args) {
  BatchSizes sizes;
  sizes[SizeSymbol::kTokens] = batch.num_tokens();
  sizes[SizeSymbol::kSequences] = batch.decode.num_sequences + batch.prefill.num_sequences;
  sizes[SizeSymbol::kDecoding] = batch.decode.num_sequences;
  for (const SequenceGroup* group : {&batch.decode, &batch.prefill})
    if (group->num_sequences > 0 && group->block_table.rank() == 2)
      sizes[SizeSymbol::kPages] = group->block_table.size(1);
  sizes[SizeSymbol::kPageSize] = batch.page_size;
  for (size_t i = 0; i < specs.size() && i < states.size(); ++i)
    sizes[specs[i].per_token() ? SizeSymbol::kBlocks : SizeSymbol::kSlots] = states[i].size(0);
  if (std::optional<size_t> logits = logits_argument(model); logits && *logits < args.size() && args[*logits])
    sizes[SizeSymbol::kLogits] = args[*logits]->size(0);
  return sizes;
}

struct GraphInterpreter::Step {
  Context& ctx;
  BatchSizes sizes;
  std::vector<View> views = {};     // by value
  std::vector<bool> in_state = {};  // by value: its memory is a state's, which is updated in place
};

GraphInterpreter::GraphInterpreter(const Graph& graph, const Node::Lookup& weight, std::vector<StateSpec> states,
                                   Device device)
    : phase_(graph.phase), flat_(flatten(graph)), states_(std::move(states)), device_(device), values_(device) {
  weights_.resize(flat_.values.size());
  for (ValueId id : flat_.inputs) {
    const GraphValue& value = flat_.values[static_cast<size_t>(id)];
    if (value.kind != ValueKind::kParameter) continue;
    View& view = weights_[static_cast<size_t>(id)];
    view = weight(value.name);
    if (TensorSpec wanted{shape_at(value, {}), value.dtype}; view.spec() != wanted) throw_misfit(value, view, wanted);
  }
  for (const GraphNode& node : flat_.nodes) {
    operators_.emplace_back();
    if (!node.is_call()) continue;
    const OperatorInfo& info = Registry::instance().at(node.op);
    operators_.back() = info.build(node.init, {.device = device});
    operators_.back()->bind([&](const std::string& name) {
      const GraphOperand* operand = node.input(name);
      if (operand == nullptr) throw Error("The graph's call of {} at '{}' has no '{}'.", node.op, node.path, name);
      return weights_[static_cast<size_t>(operand->value)];
    });
  }
}

void GraphInterpreter::run(Context& ctx, Args args) {
  check_phase(phase_, ctx.attention);
  values_.reset();
  const OperatorInfo& model = Registry::instance().at(flat_.op);
  Step step{ctx, batch_sizes(*ctx.attention, states_, ctx.states, model, args)};
  step.views = weights_;
  step.in_state.resize(flat_.values.size(), false);
  auto argument = [&](std::string_view name) -> const OptView& {
    for (size_t i = 0; i < model.args.size(); ++i)
      if (model.args[i].name == name) return args[i];
    throw Error("{} has no argument '{}'; the graph was made by another version.", flat_.op, name);
  };
  for (ValueId id : flat_.inputs) {
    const GraphValue& value = flat_.values[static_cast<size_t>(id)];
    View& view = step.views[static_cast<size_t>(id)];
    if (value.kind == ValueKind::kParameter) continue;
    if (value.kind == ValueKind::kArgument) {
      const OptView& given = argument(value.name);
      if (!given) throw Error("The graph of {} needs the argument '{}'.", flat_.op, value.name);
      view = *given;
    } else if (value.kind == ValueKind::kBatch) {
      view = batch_view(*ctx.attention, value.name);
    } else {
      auto at = std::find_if(states_.begin(), states_.end(), [&](const StateSpec& s) { return s.name == value.name; });
      if (at == states_.end()) throw Error("The model has no state '{}', which its graph names.", value.name);
      view = ctx.states[static_cast<size_t>(at - states_.begin())];
      step.in_state[static_cast<size_t>(id)] = true;
    }
    if (TensorSpec wanted{shape_at(value, step.sizes), value.dtype}; view.spec() != wanted)
      throw_misfit(value, view, wanted);
  }
  for (size_t i = 0; i < flat_.nodes.size(); ++i) run_node(step, i);
  for (const GraphOperand& o : flat_.outputs) {
    if (step.in_state[static_cast<size_t>(o.value)]) continue;
    const OptView& out = argument(o.name);
    if (out) copy_elements(step.views[static_cast<size_t>(o.value)], *out);
  }
}

void GraphInterpreter::run_node(Step& step, size_t index) {
  const GraphNode& node = flat_.nodes[index];
  if (node.is_call()) return call(step, index);
  auto view_of = [&](const GraphOperand& o) -> View& { return step.views[static_cast<size_t>(o.value)]; };
  View from = view_of(node.inputs[0]);
  const GraphValue& result = flat_.values[static_cast<size_t>(node.outputs[0].value)];
  Shape shape = shape_at(result, step.sizes);
  View& to = view_of(node.outputs[0]);
  auto fail = [&] {
    throw Error("The graph's {} of {} to {} is impossible for this batch.", node_text(flat_, node), from.str(),
                shape.str());
  };
  switch (node.kind) {
    case GraphNode::Kind::kSlice:
      for (int d = 0; d < shape.rank(); ++d) {
        int64_t start = node.starts[static_cast<size_t>(d)].at(step.sizes);
        if (start < 0 || shape[d] < 0 || start + shape[d] > from.size(d)) fail();
        from = from.narrow(d, start, shape[d]);
      }
      to = from;
      break;
    case GraphNode::Kind::kReshape:
      if (from.numel() != shape.numel()) fail();
      if (!from.contiguous() && shape.rank() == from.rank() + 1 && from.size(-1) == shape[-1] * shape[-2]) {
        to = from.split_last(shape[-2], shape[-1]);
        break;
      }
      if (!from.contiguous()) {
        View dense = values_.make(from.spec());
        copy_elements(from, dense);
        from = dense;
      }
      to = from.reshape(shape);
      break;
    case GraphNode::Kind::kConcat: {
      to = values_.make({shape, result.dtype});
      int64_t row = 0;
      for (const GraphOperand& o : node.inputs) {
        const View& part = view_of(o);
        if (row + part.size(0) > to.size(0)) fail();
        copy_elements(part, to.narrow(0, row, part.size(0)));
        row += part.size(0);
      }
      break;
    }
    case GraphNode::Kind::kCall:
      break;
  }
}

void GraphInterpreter::call(Step& step, size_t index) {
  const GraphNode& node = flat_.nodes[index];
  Node& callee = *operators_[index];
  std::vector<OptView> args;
  for (const ArgSpec& spec : callee.info().args) {
    const GraphOperand *input = node.input(spec.name), *output = node.output(spec.name);
    OptView view;
    if (spec.role == Role::kOutput) {
      if (output != nullptr) {
        const GraphValue& value = flat_.values[static_cast<size_t>(output->value)];
        view = values_.make({shape_at(value, step.sizes), value.dtype});
      }
    } else if (input != nullptr) {
      view = step.views[static_cast<size_t>(input->value)];
      bool state = step.in_state[static_cast<size_t>(input->value)];
      if (output != nullptr) step.in_state[static_cast<size_t>(output->value)] = state;
      if (output != nullptr && !state) {  // the operator updates it in place, and the old value must stay
        View copy = values_.make(view->spec());
        copy_elements(*view, copy);
        view = copy;
      }
    }
    if (output != nullptr) step.views[static_cast<size_t>(output->value)] = *view;
    args.push_back(view);
  }
  std::vector<View> own;
  for (const StateSpec& s : callee.own_states()) {
    ValueId before = node.input(s.name)->value, after = node.output(s.name)->value;
    own.push_back(step.views[static_cast<size_t>(before)]);
    step.views[static_cast<size_t>(after)] = own.back();
    step.in_state[static_cast<size_t>(after)] = true;
  }
  Context ctx{step.ctx.pool, step.ctx.arena, step.ctx.attention, own, nullptr, step.ctx.stream};
  Arena::Mark scratch = ctx.arena.mark();
  callee.call(ctx, args);
  ctx.arena.release(scratch);
}

}  // namespace fk
