#include "compiler/plan/plan_layout.h"

#include <algorithm>
#include <map>

#include "compiler/plan/schedule.h"
#include "core/error.h"
#include "graph/unify.h"
#include "graph/view_relation.h"
#include "ops/registry.h"

namespace fk {
namespace {

Shape shape_of(const std::vector<SymbolicSize>& sizes, const BatchSizes& batch) {
  std::array<int64_t, kMaxRank> extents{};
  for (size_t i = 0; i < sizes.size(); ++i) extents[i] = sizes[i].at(batch);
  return Shape(std::span(extents.data(), sizes.size()));
}

SymbolicSize sum(const SymbolicSize& a, const SymbolicSize& b) {
  SymbolicSize both = a;
  both.constant += b.constant;
  for (size_t i = 0; i < kNumSizeSymbols; ++i) both.factors[i] += b.factors[i];
  return both;
}

// Of every value the one whose memory it is a part of, as far as slices and reshapes say, and its views for some sizes
// of a batch, at addresses that no memory has. It tells which values overlap.
class Views {
 public:
  Views(const GraphBody& body, GraphPhase phase) : samples_(sample_sizes(phase)) {
    origin_.resize(body.values.size());
    views_.resize(body.values.size());
    for (size_t v = 0; v < body.values.size(); ++v) begin(body, static_cast<ValueId>(v));
    for (const GraphNode& node : body.nodes)
      if (node.kind == GraphNode::Kind::kSlice || node.kind == GraphNode::Kind::kReshape) derive(body, node);
  }

  ValueId origin(ValueId v) const { return origin_[static_cast<size_t>(v)]; }
  bool overlap(ValueId a, ValueId b) const {
    if (origin(a) != origin(b)) return false;
    for (size_t s = 0; s < samples_.size(); ++s)
      if (views_overlap(views_[static_cast<size_t>(a)][s], views_[static_cast<size_t>(b)][s])) return true;
    return false;
  }

 private:
  void begin(const GraphBody& body, ValueId v) {
    const GraphValue& value = body.values[static_cast<size_t>(v)];
    origin_[static_cast<size_t>(v)] = v;
    for (const BatchSizes& sizes : samples_)
      views_[static_cast<size_t>(v)].emplace_back(reinterpret_cast<void*>(uintptr_t{1} << 60),  // NOLINT: not accessed
                                                  shape_of(value.shape, sizes), value.dtype);
  }

  void derive(const GraphBody& body, const GraphNode& node) {
    const ValueId from = node.inputs[0].value, to = node.outputs[0].value;
    std::vector<View> derived;
    for (size_t s = 0; s < samples_.size(); ++s) {
      View view = views_[static_cast<size_t>(from)][s];
      const Shape shape = shape_of(body.values[static_cast<size_t>(to)].shape, samples_[s]);
      if (node.kind == GraphNode::Kind::kSlice) {
        for (int d = 0; d < shape.rank(); ++d)
          view = view.narrow(d, node.starts[static_cast<size_t>(d)].at(samples_[s]), shape[d]);
      } else if (std::optional<View> other = reshaped_view(view, shape)) {
        view = *other;
      } else {
        return;  // a copy, with memory of its own
      }
      derived.push_back(view);
    }
    views_[static_cast<size_t>(to)] = std::move(derived);
    origin_[static_cast<size_t>(to)] = origin(from);
  }

  std::vector<BatchSizes> samples_;
  std::vector<ValueId> origin_;
  std::vector<std::vector<View>> views_;  // by value and sample
};

class LayoutBuilder {
 public:
  LayoutBuilder(const GraphBody& body, GraphPhase phase, const std::vector<const Region*>& regions)
      : body_(body), regions_(regions), schedule_(schedule_units(body, regions)), views_(body, phase) {}

  PlanLayout run() {
    find_last_reads();
    layout_.places.resize(body_.values.size());
    memory_of_.assign(body_.values.size(), -1);
    for (size_t i = 0; i < body_.inputs.size(); ++i) {
      const ValueId id = body_.inputs[i];
      define(id, {.kind = PlanPlace::Kind::kExternal, .of = static_cast<int>(i)}, -1);
    }
    for (now_ = 0; now_ < static_cast<int>(schedule_.size()); ++now_) {
      const ScheduleUnit& unit = schedule_[static_cast<size_t>(now_)];
      if (unit.is_region)
        add_region(unit.index);
      else
        add_node(unit.index);
    }
    for (size_t i = 0; i < body_.outputs.size(); ++i) add_output(i);
    find_lifetimes();
    return std::move(layout_);
  }

 private:
  using Kind = PlanPlace::Kind;

  const GraphValue& value(ValueId id) const { return body_.values[static_cast<size_t>(id)]; }
  PlanPlace& place(int id) { return layout_.places[static_cast<size_t>(id)]; }
  PlannedMemory& memory(int m) { return layout_.memory[static_cast<size_t>(m)]; }

  void find_last_reads() {
    last_read_.assign(body_.values.size(), -1);
    for (size_t t = 0; t < schedule_.size(); ++t) {
      auto read = [&](ValueId id) { last_read_[static_cast<size_t>(id)] = static_cast<int>(t); };
      const ScheduleUnit& unit = schedule_[t];
      if (unit.is_region) {
        for (ValueId id : regions_[unit.index]->inputs) read(id);
      } else if (const GraphNode& node = body_.nodes[unit.index];
                 node.is_call() || node.kind == GraphNode::Kind::kConcat ||
                 views_.origin(node.outputs[0].value) == node.outputs[0].value) {
        for (const GraphOperand& o : node.inputs) read(o.value);
      }
    }
    for (const GraphOperand& o : body_.outputs)
      last_read_[static_cast<size_t>(o.value)] = static_cast<int>(schedule_.size());
    for (size_t v = 0; v < body_.values.size(); ++v)
      same_origin_[views_.origin(static_cast<ValueId>(v))].push_back(static_cast<ValueId>(v));
  }

  // `in`: the memory that the place lies in; -1: memory of the caller.
  void define(int id, PlanPlace made, int in) {
    if (id < static_cast<int>(body_.values.size())) {
      made.dtype = value(id).dtype;
      made.shape = value(id).shape;
    }
    place(id) = std::move(made);
    memory_of_[static_cast<size_t>(id)] = in;
    layout_.order.push_back(id);
  }

  int new_memory(ValueId id) {
    layout_.memory.push_back({.dtype = value(id).dtype, .shape = value(id).shape, .first = now_, .last = now_});
    const int m = static_cast<int>(layout_.memory.size()) - 1;
    define(id, {.kind = Kind::kMemory, .of = m}, m);
    return m;
  }

  // A place that is no value of the graph.
  int extra_place(PlanPlace made, int in) {
    layout_.places.emplace_back();
    memory_of_.push_back(-1);
    const int id = static_cast<int>(layout_.places.size()) - 1;
    define(id, std::move(made), in);
    return id;
  }

  void add_copy(int from, int to) {
    layout_.steps.push_back({.kind = PlanStep::Kind::kCopy, .index = 0, .places = {from, to}});
  }

  void alias(ValueId id, Kind kind, ValueId of, std::vector<SymbolicSize> starts = {}) {
    define(id, {.kind = kind, .of = of, .starts = std::move(starts)}, memory_of_[static_cast<size_t>(of)]);
  }

  void add_node(size_t index) {
    const GraphNode& node = body_.nodes[index];
    if (node.is_call()) return add_call(index);
    if (node.kind == GraphNode::Kind::kConcat) return add_concat(node);
    const ValueId from = node.inputs[0].value, to = node.outputs[0].value;
    if (views_.origin(to) != to)
      return alias(to, node.kind == GraphNode::Kind::kSlice ? Kind::kSlice : Kind::kReshape, from, node.starts);
    new_memory(to);
    add_copy(from, to);
    ++layout_.copies_reshape;
  }

  void add_call(size_t index) {
    const GraphNode& node = body_.nodes[index];
    PlanStep step{.kind = PlanStep::Kind::kCall, .index = index};
    for (const ArgSpec& arg : Registry::instance().at(node.op).args) {
      const GraphOperand *input = node.input(arg.name), *output = node.output(arg.name);
      if (output != nullptr && arg.role == Role::kOutput) new_memory(output->value);
      if (output != nullptr && arg.role != Role::kOutput) update(node, *input, output->value);
      step.places.push_back(output != nullptr ? output->value : input != nullptr ? input->value : -1);
    }
    // States that are not among the arguments.
    for (const GraphOperand& output : node.outputs)
      if (place(output.value).kind == Kind::kNone) alias(output.value, Kind::kSame, node.input(output.name)->value);
    layout_.steps.push_back(std::move(step));
  }

  bool is_state(ValueId id) {
    int at = id;
    while (place(at).kind != Kind::kExternal && place(at).kind != Kind::kMemory) at = place(at).of;
    const int input = place(at).of;
    return place(at).kind == Kind::kExternal && input < static_cast<int>(body_.inputs.size()) &&
           value(body_.inputs[static_cast<size_t>(input)]).kind == ValueKind::kState;
  }

  // A call turns `before` into `after` in place.
  void update(const GraphNode& node, const GraphOperand& before, ValueId after) {
    if (is_state(before.value) || can_overwrite(node, before)) return alias(after, Kind::kSame, before.value);
    new_memory(after);
    add_copy(before.value, after);
    ++layout_.copies_in_place;
  }

  bool can_overwrite(const GraphNode& node, const GraphOperand& before) {
    const int m = memory_of_[static_cast<size_t>(before.value)];
    if (m < 0) return false;  // an argument or a weight
    // Another array shares this memory, whose values are not compared below.
    if (memory(m).inside >= 0 || (static_cast<size_t>(m) < holds_parts_.size() && holds_parts_[static_cast<size_t>(m)]))
      return false;
    for (ValueId other : same_origin_.at(views_.origin(before.value)))
      if (last_read_[static_cast<size_t>(other)] > now_ && views_.overlap(other, before.value)) return false;
    for (const GraphOperand& o : node.inputs)
      if (&o != &before && views_.overlap(o.value, before.value)) return false;
    return true;
  }

  // Whether the value is all of its memory.
  bool is_whole(ValueId id) {
    int at = id;
    for (; place(at).kind != Kind::kMemory; at = place(at).of)
      if (place(at).kind != Kind::kReshape && place(at).kind != Kind::kSame) return false;
    return true;
  }

  void add_concat(const GraphNode& node) {
    const int all = new_memory(node.outputs[0].value);
    holds_parts_.resize(layout_.memory.size(), false);
    holds_parts_[static_cast<size_t>(all)] = true;
    SymbolicSize row = 0;
    for (const GraphOperand& o : node.inputs) {
      const int m = memory_of_[static_cast<size_t>(o.value)];
      if (m >= 0 && memory(m).inside < 0 && m != all && is_whole(o.value)) {
        memory(m).inside = all;
        memory(m).first_row = row;
        memory(all).first = std::min(memory(all).first, memory(m).first);
      } else {
        std::vector<SymbolicSize> starts(value(o.value).shape.size(), SymbolicSize(0));
        starts[0] = row;
        add_copy(o.value, extra_place({.kind = Kind::kSlice,
                                       .of = node.outputs[0].value,
                                       .dtype = value(o.value).dtype,
                                       .shape = value(o.value).shape,
                                       .starts = std::move(starts)},
                                      all));
        ++layout_.copies_concat;
      }
      row = sum(row, value(o.value).shape[0]);
    }
  }

  void add_region(size_t index) {
    const Region& region = *regions_[index];
    PlanStep step{.kind = PlanStep::Kind::kRegion, .index = index};
    for (ValueId id : region.inputs) step.places.push_back(id);
    for (const Region::Output& o : region.outputs) {
      if (o.updates >= 0) {
        const ValueId before = region.inputs[static_cast<size_t>(o.updates)];
        if (!is_state(before))
          throw Error("A region of the plan updates %{}, which is not a state of the model.", before);
        alias(o.value, Kind::kSame, before);
      } else {
        new_memory(o.value);
      }
      step.places.push_back(o.value);
    }
    layout_.steps.push_back(std::move(step));
  }

  void add_output(size_t i) {
    const ValueId id = body_.outputs[i].value;
    if (is_state(id)) return;
    const int m = memory_of_[static_cast<size_t>(id)];
    if (m >= 0 && memory(m).inside < 0 && memory(m).output < 0 && is_whole(id)) {
      memory(m).output = static_cast<int>(i);
      return;
    }
    add_copy(id, extra_place({.kind = Kind::kExternal,
                              .of = static_cast<int>(body_.inputs.size() + i),
                              .dtype = value(id).dtype,
                              .shape = value(id).shape},
                             -1));
    ++layout_.copies_output;
  }

  void find_lifetimes() {
    auto top = [&](int m) {
      while (memory(m).inside >= 0) m = memory(m).inside;
      return m;
    };
    for (size_t m = 0; m < layout_.memory.size(); ++m) {
      PlannedMemory& all = memory(top(static_cast<int>(m)));
      all.first = std::min(all.first, layout_.memory[m].first);
    }
    for (size_t v = 0; v < body_.values.size(); ++v)
      if (memory_of_[v] >= 0 && last_read_[v] >= 0) {
        PlannedMemory& all = memory(top(memory_of_[v]));
        all.last = std::max(all.last, last_read_[v]);
      }
  }

  const GraphBody& body_;
  const std::vector<const Region*>& regions_;
  std::vector<ScheduleUnit> schedule_;
  Views views_;
  PlanLayout layout_;
  int now_ = 0;                                          // unit of the schedule
  std::vector<int> memory_of_;                           // by place
  std::vector<int> last_read_;                           // by value: unit; -1: never
  std::map<ValueId, std::vector<ValueId>> same_origin_;  // values by Views::origin
  std::vector<bool> holds_parts_;                        // by memory: of a concatenation
};

}  // namespace

std::optional<View> reshaped_view(const View& view, const Shape& shape) {
  if (view.numel() != shape.numel()) return std::nullopt;
  if (view.shape() == shape) return view;
  if (view.contiguous()) return view.reshape(shape);
  // Leading dimensions that stay, then those behind them as one, which is divided anew.
  int same = 0;
  while (same < std::min(view.rank(), shape.rank()) && view.size(same) == shape[same]) ++same;
  View flat = view;
  while (flat.rank() > same + 1) {
    if (flat.stride(-2) != flat.size(-1) * flat.stride(-1)) return std::nullopt;
    flat = flat.flatten_last();
  }
  if (flat.rank() != same + 1 || shape.rank() == same) return std::nullopt;
  int64_t rest = flat.size(-1);
  for (int d = same; d + 1 < shape.rank(); ++d) {
    if (shape[d] == 0) return std::nullopt;
    rest /= shape[d];
    flat = flat.split_last(shape[d], rest);
  }
  return flat.shape() == shape ? std::optional(flat) : std::nullopt;
}

PlanLayout make_layout(const GraphBody& body, GraphPhase phase, const std::vector<const Region*>& regions) {
  return LayoutBuilder(body, phase, regions).run();
}

}  // namespace fk
