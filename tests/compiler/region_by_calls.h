// A region's kernel that makes the region's calls one by one, with memory of its own: what any real kernel must equal.
#pragma once

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "compiler/plan/plan_frame.h"
#include "compiler/plan/region.h"
#include "ops/registry.h"

namespace fk {

// What goes in and out of these nodes of a flat graph.
inline Region region_of(const GraphBody& body, std::vector<size_t> nodes) {
  Region region{.nodes = std::move(nodes), .inputs = {}, .outputs = {}};
  std::vector<bool> inside(body.nodes.size(), false), made(body.values.size(), false), read(body.values.size(), false);
  std::vector<ValueId> state(body.values.size(), -1);  // the input of the region that the value is an update of
  for (size_t n : region.nodes) inside[n] = true;
  for (size_t n : region.nodes)
    for (const GraphOperand& o : body.nodes[n].outputs) made[static_cast<size_t>(o.value)] = true;
  for (size_t n = 0; n < body.nodes.size(); ++n)
    for (const GraphOperand& o : body.nodes[n].inputs) {
      auto at = static_cast<size_t>(o.value);
      if (!inside[n]) read[at] = true;
      if (inside[n] && !made[at] &&
          std::find(region.inputs.begin(), region.inputs.end(), o.value) == region.inputs.end())
        region.inputs.push_back(o.value);
    }
  for (const GraphOperand& o : body.outputs) read[static_cast<size_t>(o.value)] = true;
  // Values that are states of the model, in the whole graph.
  std::vector<bool> is_state(body.values.size(), false);
  for (ValueId id : body.inputs)
    is_state[static_cast<size_t>(id)] = body.values[static_cast<size_t>(id)].kind == ValueKind::kState;
  for (const GraphNode& node : body.nodes)
    for (const GraphOperand& o : node.outputs)
      if (const GraphOperand* before = node.is_call() ? node.input(o.name) : nullptr)
        is_state[static_cast<size_t>(o.value)] = is_state[static_cast<size_t>(before->value)];
  for (ValueId id : region.inputs)
    if (is_state[static_cast<size_t>(id)]) state[static_cast<size_t>(id)] = id;
  for (size_t n : region.nodes) {
    const GraphNode& node = body.nodes[n];
    for (const GraphOperand& o : node.outputs) {
      auto at = static_cast<size_t>(o.value);
      if (const GraphOperand* before = node.is_call() ? node.input(o.name) : nullptr; before && is_state[at])
        state[at] = state[static_cast<size_t>(before->value)];
      if (!read[at] && !is_state[at]) continue;
      auto from = std::find(region.inputs.begin(), region.inputs.end(), state[at]);
      region.outputs.push_back({o.value, state[at] < 0 ? -1 : static_cast<int>(from - region.inputs.begin())});
    }
  }
  return region;
}

class RegionByCalls : public RegionKernel {
 public:
  RegionByCalls(const GraphBody& body, Region region, const AttentionMetadata* batch)
      : body_(body), region_(std::move(region)), batch_(batch) {}

  std::string_view refuse(std::span<const View>, std::span<const View>) const override { return why_not; }

  void run(Context& ctx, std::span<const View> inputs, std::span<const View> outputs) override {
    ++runs;
    std::map<ValueId, View> views;
    std::vector<Tensor> memory;
    BatchSizes sizes = sizes_of(ctx, inputs);
    for (size_t i = 0; i < inputs.size(); ++i) views[region_.inputs[i]] = inputs[i];
    auto fresh = [&](const TensorSpec& spec) {
      memory.emplace_back(spec);
      std::memset(memory.back().view().data(), 0xff, memory.back().view().size_bytes());
      return memory.back().view();
    };
    for (size_t n : region_.nodes) {
      const GraphNode& node = body_.nodes[n];
      auto spec_of = [&](ValueId id) {
        const GraphValue& value = body_.values[static_cast<size_t>(id)];
        return TensorSpec{shape_at(value.shape, sizes), value.dtype};
      };
      if (node.is_call()) {
        call(ctx, node, views, spec_of, fresh);
        continue;
      }
      const ValueId out = node.outputs[0].value;
      View from = views.at(node.inputs[0].value);
      const TensorSpec spec = spec_of(out);
      if (node.kind == GraphNode::Kind::kSlice) {
        for (int d = 0; d < spec.shape.rank(); ++d)
          from = from.narrow(d, node.starts[static_cast<size_t>(d)].at(sizes), spec.shape[d]);
        views[out] = from;
        continue;
      }
      View to = fresh(spec);
      int64_t row = 0;
      if (node.kind == GraphNode::Kind::kReshape) copy_array(from, to);
      if (node.kind == GraphNode::Kind::kConcat)
        for (const GraphOperand& o : node.inputs) {
          const View& part = views.at(o.value);
          copy_array(part, to.narrow(0, row, part.size(0)));
          row += part.size(0);
        }
      views[out] = to;
    }
    for (size_t i = 0; i < outputs.size(); ++i)
      if (region_.outputs[i].updates < 0) copy_array(views.at(region_.outputs[i].value), outputs[i]);
  }

  std::string why_not;
  int runs = 0;

 private:
  // T, S and so on, from the metadata; others from the states and arrays that go in.
  BatchSizes sizes_of(const Context&, std::span<const View> inputs) const {
    BatchSizes sizes;
    sizes[SizeSymbol::kTokens] = batch_->num_tokens();
    sizes[SizeSymbol::kSequences] = batch_->decode.num_sequences + batch_->prefill.num_sequences;
    sizes[SizeSymbol::kDecoding] = batch_->decode.num_sequences;
    for (const SequenceGroup* g : {&batch_->decode, &batch_->prefill})
      if (g->num_sequences > 0 && g->block_table.rank() == 2) sizes[SizeSymbol::kPages] = g->block_table.size(1);
    sizes[SizeSymbol::kPageSize] = batch_->page_size;
    for (size_t i = 0; i < inputs.size(); ++i) {
      const GraphValue& value = body_.values[static_cast<size_t>(region_.inputs[i])];
      for (SizeSymbol s : {SizeSymbol::kBlocks, SizeSymbol::kSlots, SizeSymbol::kLogits})
        if (!value.shape.empty() && value.shape[0].uses(s)) sizes[s] = inputs[i].size(0);
    }
    return sizes;
  }

  template <class SpecOf, class Fresh>
  void call(Context& ctx, const GraphNode& node, std::map<ValueId, View>& views, const SpecOf& spec_of,
            const Fresh& fresh) {
    const OperatorInfo& info = Registry::instance().at(node.op);
    std::unique_ptr<Node> callee = info.build(node.init, {});
    callee->bind([&](const std::string& name) { return views.at(node.input(name)->value); });
    std::vector<OptView> args;
    for (const ArgSpec& arg : info.args) {
      const GraphOperand *input = node.input(arg.name), *output = node.output(arg.name);
      OptView view;
      if (arg.role == Role::kOutput) {
        if (output != nullptr) view = fresh(spec_of(output->value));
      } else if (input != nullptr) {
        view = views.at(input->value);
        bool state = output != nullptr && updates_state(output->value);
        if (output != nullptr && !state) {
          View copy = fresh(view->spec());
          copy_array(*view, copy);
          view = copy;
        }
      }
      if (output != nullptr) views[output->value] = *view;
      args.push_back(view);
    }
    std::vector<View> own;
    for (const StateSpec& s : callee->own_states()) {
      own.push_back(views.at(node.input(s.name)->value));
      views[node.output(s.name)->value] = own.back();
    }
    Context inner{ctx.pool, ctx.arena, ctx.attention, own};
    callee->call(inner, args);
  }

  bool updates_state(ValueId id) const {
    for (const Region::Output& o : region_.outputs)
      if (o.value == id) return o.updates >= 0;
    return false;
  }

  const GraphBody& body_;
  Region region_;
  const AttentionMetadata* batch_;
};

}  // namespace fk
