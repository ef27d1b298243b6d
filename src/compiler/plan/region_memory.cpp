#include "compiler/plan/region_memory.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <numeric>
#include <set>

#include "compiler/plan/attention_batch.h"
#include "compiler/plan/host_copy.h"
#include "core/device_runtime.h"
#include "core/error.h"
#include "core/rng.h"
#include "ops/registry.h"

namespace fk {
namespace {

using algebra::Expr;
using algebra::Primitive;

constexpr int64_t kLastPosition = 5000;  // of integers that index nothing
// Large arrays repeat themselves, since random numbers take longer than everything else. A prime, so that rows differ.
constexpr int64_t kDistinct = 65521;
constexpr int64_t kGap = 16;       // elements between rows that are slices of wider ones
constexpr int kPoison = 0xFF;      // NaN in all float types
constexpr int64_t kSpareRows = 2;  // behind a result

// Inputs that say where rows are: what they index, and whether rows are stored there.
struct IndexUse {
  std::string of;  // the input that is indexed
  int axis = 0;
  int64_t elements = 0;  // of a stored row; 0: rows are read
};

void find_indices(const Expr& e, std::map<std::string, IndexUse>& uses, std::set<const algebra::ExprNode*>& seen) {
  if (!seen.insert(e.id()).second) return;
  auto source = [](Expr x) {
    while (!x.head().is(Primitive::kInput) && !x.inputs().empty()) x = x.inputs()[0];
    return x.head().name;
  };
  // Rows may be read and stored at the same places: those differ.
  if (e.head().is(Primitive::kGather))
    if (IndexUse& use = uses[source(e.inputs()[1])]; use.elements == 0) use = {source(e.inputs()[0]), e.head().axis, 0};
  if (e.head().is(Primitive::kScatter)) {
    const Expr& rows = e.inputs()[2];
    int64_t elements = 1;
    for (size_t d = 1; d < rows.shape().size(); ++d) elements *= rows.shape()[d];
    uses[source(e.inputs()[1])] = {source(e.inputs()[0]), 0, elements};
  }
  for (const Expr& x : e.inputs()) find_indices(x, uses, seen);
}

}  // namespace

BatchSizes sizes_with_rows(GraphPhase phase, int64_t rows) {
  BatchSizes sizes;
  sizes[SizeSymbol::kTokens] = rows;
  sizes[SizeSymbol::kSequences] = rows;
  sizes[SizeSymbol::kDecoding] = phase == GraphPhase::kDecode ? rows : 0;
  if (phase == GraphPhase::kMixed) {
    sizes[SizeSymbol::kTokens] = 2 * rows;
    sizes[SizeSymbol::kDecoding] = rows;
  }
  sizes[SizeSymbol::kPages] = 4;
  sizes[SizeSymbol::kPageSize] = 16;
  sizes[SizeSymbol::kBlocks] = 2 * rows / 16 + 4;
  sizes[SizeSymbol::kSlots] = rows + 2;
  sizes[SizeSymbol::kLogits] = rows;
  return sizes;
}

BatchSizes trial_sizes(const FoundRegion& found, GraphPhase phase, int64_t rows, bool timed) {
  return found.attention != nullptr ? attention_sizes(phase, rows, timed) : sizes_with_rows(phase, rows);
}

RegionMemory::RegionMemory(const GraphBody& flat, const FoundRegion& found, const BatchSizes& sizes, uint64_t seed,
                           Device device)
    : flat_(flat), region_(found.region), sizes_(sizes), device_(device), views_(flat.values.size()) {
  fill_inputs(found, seed);
  if (device_ != kCpu) move_inputs();
  for (const Region::Output& o : region_.outputs) {
    TensorSpec spec{shape_of(o.value), flat.values[static_cast<size_t>(o.value)].dtype};
    if (o.updates < 0) {
      outputs_.push_back(make_output(spec));
      continue;
    }
    outputs_.push_back(inputs_[static_cast<size_t>(o.updates)]);
    whole_outputs_.emplace_back();
  }
  for (size_t i = 0; i < inputs_.size(); ++i) views_[static_cast<size_t>(region_.inputs[i])] = inputs_[i];
  prepare_calls();
}

Shape RegionMemory::shape_of(ValueId id) const {
  std::vector<int64_t> extents;
  for (const SymbolicSize& s : flat_.values[static_cast<size_t>(id)].shape) extents.push_back(s.at(sizes_));
  return Shape(extents);
}

View RegionMemory::make(const TensorSpec& spec) {
  memory_.emplace_back(spec, host_inputs_.empty() ? kCpu : device_);
  return memory_.back().view();
}

View RegionMemory::make_output(const TensorSpec& spec) {
  std::vector<int64_t> extents(spec.shape.extents().begin(), spec.shape.extents().end());
  if (extents.empty()) extents.push_back(1);
  extents[0] += kSpareRows;
  whole_outputs_.push_back(make({Shape(extents), spec.dtype}));
  const View rows = whole_outputs_.back().narrow(0, 0, extents[0] - kSpareRows);
  return spec.shape.rank() == 0 ? rows.reshape(spec.shape) : rows;
}

void RegionMemory::move_inputs() {
  host_memory_ = std::move(memory_);
  host_inputs_ = inputs_;
  memory_.clear();
  for (size_t k = 0; k < inputs_.size(); ++k) {
    // There is one tensor for each input, of which it may be a part.
    const View whole = host_memory_[k].view();
    memory_.emplace_back(whole.spec(), device_);
    copy_between(whole, memory_[k].view());
    const View& host = host_inputs_[k];
    inputs_[k] = memory_[k].view();
    for (int d = 0; d < host.rank(); ++d) inputs_[k] = inputs_[k].narrow(d, 0, host.size(d));
  }
}

void RegionMemory::fill_inputs(const FoundRegion& found, uint64_t seed) {
  std::map<std::string, IndexUse> indices;
  std::set<const algebra::ExprNode*> seen;
  for (const algebra::NamedExpr& r : found.program.results) find_indices(r.expr, indices, seen);
  std::map<ValueId, const GraphNode*> maker;
  for (const GraphNode& node : flat_.nodes)
    for (const GraphOperand& o : node.outputs) maker[o.value] = &node;
  for (size_t k = 0; k < region_.inputs.size(); ++k) {
    ValueId id = region_.inputs[k];
    const GraphValue& value = flat_.values[static_cast<size_t>(id)];
    TensorSpec spec{shape_of(id), value.dtype};
    auto made = maker.find(id);
    bool sliced = made != maker.end() && made->second->kind == GraphNode::Kind::kSlice && spec.shape.rank() == 2;
    if (sliced) {
      std::vector<int64_t> wide = {spec.shape[0], spec.shape[1] + kGap};
      inputs_.push_back(make({Shape(wide), spec.dtype}).narrow(1, 0, spec.shape[1]));
    } else {
      inputs_.push_back(make(spec));
    }
    Stream stream(seed, "input " + std::to_string(k));
    if (!dtype_is_float(spec.dtype)) continue;
    View all = sliced ? memory_.back().view() : inputs_.back();
    View flat = all.reshape(Shape({all.numel()}));
    const int64_t distinct = std::min(flat.numel(), kDistinct);
    for (int64_t i = 0; i < distinct; ++i) {
      double x = stream.normal(static_cast<uint64_t>(i));
      set(flat, value.kind == ValueKind::kParameter ? 1 + 0.2 * x : x, i);
    }
    const size_t element = dtype_size(spec.dtype);
    auto* first = static_cast<std::byte*>(flat.data());
    for (int64_t i = distinct; i < flat.numel(); i += distinct)
      std::memcpy(first + static_cast<size_t>(i) * element, first,
                  static_cast<size_t>(std::min(distinct, flat.numel() - i)) * element);
  }
  // Integers, now that what they index is known.
  for (size_t k = 0; k < region_.inputs.size(); ++k) {
    const View& view = inputs_[k];
    if (dtype_is_float(view.dtype())) continue;
    if (found.attention != nullptr && fill_length(k, seed)) continue;
    Stream stream(seed, "integers " + std::to_string(k));
    int64_t most = kLastPosition;
    bool stored = false;
    if (auto use = indices.find("x" + std::to_string(k)); use != indices.end() && use->second.of.starts_with("x")) {
      const View& of = inputs_[static_cast<size_t>(std::stoi(use->second.of.substr(1)))];
      stored = use->second.elements > 0;
      most = stored ? of.numel() / use->second.elements : of.size(use->second.axis);
    }
    View flat = view.reshape(Shape({view.numel()}));
    std::vector<int64_t> places(static_cast<size_t>(most));
    std::iota(places.begin(), places.end(), 0);
    for (int64_t i = 0; i < flat.numel(); ++i) {
      auto left = static_cast<uint64_t>(stored ? std::max<int64_t>(1, most - i) : most);
      auto pick =
          static_cast<size_t>(stream.below(static_cast<uint64_t>(i), left)) + static_cast<size_t>(stored ? i : 0);
      if (pick >= places.size()) throw Error("A region stores {} rows to {} places.", flat.numel(), most);
      set(flat, static_cast<double>(places[pick]), i);
      if (stored) std::swap(places[pick], places[static_cast<size_t>(i)]);
    }
  }
}

bool RegionMemory::fill_length(size_t input, uint64_t seed) {
  const GraphNode& call = flat_.nodes[region_.nodes.back()];
  auto arg = [&](std::string_view name) -> OptView {
    const GraphOperand* operand = call.input(name);
    if (operand == nullptr) return {};
    auto at = std::find(region_.inputs.begin(), region_.inputs.end(), operand->value);
    if (at == region_.inputs.end()) return {};
    return inputs_[static_cast<size_t>(at - region_.inputs.begin())];
  };
  for (const GraphOperand& o : call.inputs)
    if (o.value == region_.inputs[input] && fill_lengths(o.name, inputs_[input], arg, seed)) return true;
  return false;
}

View RegionMemory::moved(const GraphNode& node, const View& from) const {
  Shape shape = shape_of(node.outputs[0].value);
  if (node.kind == GraphNode::Kind::kSlice) {
    View part = from;
    for (int d = 0; d < shape.rank(); ++d)
      part = part.narrow(d, node.starts[static_cast<size_t>(d)].at(sizes_), shape[d]);
    return part;
  }
  if (!from.contiguous() && shape.rank() == from.rank() + 1) return from.split_last(shape[-2], shape[-1]);
  if (!from.contiguous() && shape.rank() + 1 == from.rank()) return from.flatten_last();
  return from.reshape(shape);
}

void RegionMemory::prepare_calls() {
  auto view = [&](ValueId id) -> View& { return views_[static_cast<size_t>(id)]; };
  for (size_t index : region_.nodes) {
    const GraphNode& node = flat_.nodes[index];
    if (!node.is_call()) {
      view(node.outputs[0].value) = moved(node, view(node.inputs[0].value));
      continue;
    }
    Call call;
    call.node = Registry::instance().at(node.op).build(node.init, {.device = device_});
    call.node->bind([&](const std::string& name) { return view(node.input(name)->value); });
    for (const ArgSpec& arg : call.node->info().args) {
      const GraphOperand *input = node.input(arg.name), *output = node.output(arg.name);
      call.args.emplace_back();
      if (arg.role == Role::kOutput && output != nullptr) {
        const GraphValue& value = flat_.values[static_cast<size_t>(output->value)];
        view(output->value) = make({shape_of(output->value), value.dtype});
        call.args.back() = view(output->value);
      } else if (arg.role != Role::kOutput && input != nullptr) {
        call.args.back() = view(input->value);
        if (output != nullptr) view(output->value) = view(input->value);
      }
    }
    for (const StateSpec& s : call.node->own_states()) {
      call.states.push_back(view(node.input(s.name)->value));
      if (const GraphOperand* after = node.output(s.name)) view(after->value) = call.states.back();
    }
    calls_.push_back(std::move(call));
  }
}

void RegionMemory::poison_outputs() {
  for (size_t i = 0; i < outputs_.size(); ++i) {
    if (region_.outputs[i].updates >= 0) continue;
    const View& whole = whole_outputs_[i];
    if (device_ == kCpu)
      std::memset(whole.data(), kPoison, whole.size_bytes());
    else
      device_runtime(device_).fill(whole.data(), std::byte{kPoison}, whole.size_bytes());
  }
}

std::optional<size_t> RegionMemory::overrun() const {
  for (size_t i = 0; i < outputs_.size(); ++i) {
    if (region_.outputs[i].updates >= 0) continue;
    const View& whole = whole_outputs_[i];
    const Tensor spare = host_copy(whole.narrow(0, whole.size(0) - kSpareRows, kSpareRows));
    const auto* bytes = static_cast<const unsigned char*>(spare.view().data());
    if (std::any_of(bytes, bytes + spare.view().size_bytes(), [](unsigned char b) { return b != kPoison; })) return i;
  }
  return std::nullopt;
}

void RegionMemory::call(Context& ctx) {
  for (Call& c : calls_) {
    Context own{ctx.pool, ctx.arena, ctx.attention, c.states, nullptr, ctx.stream};
    Arena::Mark scratch = ctx.arena.mark();
    c.node->call(own, c.args);
    ctx.arena.release(scratch);
  }
}

std::vector<View> RegionMemory::called() const {
  std::vector<View> views;
  for (const Region::Output& o : region_.outputs) views.push_back(views_[static_cast<size_t>(o.value)]);
  return views;
}

Tolerance RegionMemory::tolerance() const {
  Tolerance sum;
  DType narrowest = DType::kF32;
  for (const Call& c : calls_) {
    DType dtype = DType::kF32;
    std::vector<OptView> given;
    std::vector<Tensor> copies;  // a tolerance may depend on the numbers, which are read as dense arrays
    for (size_t i = 0; i < c.args.size(); ++i) {
      if (c.node->info().args[i].role == Role::kOutput) continue;
      given.push_back(c.args[i]);
      if (c.args[i] && (device_ != kCpu || !c.args[i]->contiguous())) {
        copies.push_back(host_copy(*c.args[i]));
        given.back() = copies.back().view();
      }
      if (c.args[i] && dtype_is_float(c.args[i]->dtype()) && dtype_size(c.args[i]->dtype()) < dtype_size(dtype))
        dtype = c.args[i]->dtype();
    }
    if (dtype_size(dtype) < dtype_size(narrowest)) narrowest = dtype;
    // A choice of experts has a rule of its own, and no tolerance; its weights are rounded as others.
    Tolerance t = c.node->info().judge != nullptr ? rounding_tolerance(dtype)
                                                  : c.node->info().tolerance_on(c.node->init(), dtype, given);
    sum.relative += t.relative;
    sum.of_scale += t.of_scale;
  }
  // A result between two calls is rounded, and may be rounded to either side: an error of its last bit, however small
  // the results of the next call are.
  if (calls_.size() <= 1) return sum;
  sum.of_scale += dtype_epsilon(narrowest);
  // A product adds up such errors of a whole row, and what is rounded before a norm is off by as much again. They are
  // as often positive as negative: of thousands of sums the largest is off by a few of them, as a share of the scale.
  constexpr double kOfLargestSum = 3;
  if (std::any_of(region_.nodes.begin(), region_.nodes.end(), [&](size_t n) { return flat_.nodes[n].op == "linear"; }))
    sum.of_scale += kOfLargestSum * dtype_epsilon(narrowest);
  return sum;
}

}  // namespace fk
