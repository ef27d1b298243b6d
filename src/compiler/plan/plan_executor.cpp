#include "compiler/plan/plan_executor.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "compiler/plan/arena_plan.h"
#include "compiler/plan/named_faults.h"
#include "compiler/plan/plan_frame.h"
#include "compiler/plan/plan_observer.h"
#include "compiler/plan/tree_calls.h"
#include "core/error.h"
#include "graph/dry_batch.h"
#include "ops/registry.h"

namespace fk {
namespace {

// Prompts of many lengths come in a row; a few sizes are enough for the steps between them.
constexpr size_t kMostFrames = 16;
constexpr size_t kMostSeen = 64;  // sizes that are remembered without being prepared

bool same_view(const View& a, const View& b) {
  if (a.data() != b.data() || a.dtype() != b.dtype() || a.rank() != b.rank()) return false;
  for (int d = 0; d < a.rank(); ++d)
    if (a.size(d) != b.size(d) || a.stride(d) != b.stride(d)) return false;
  return true;
}

bool same_shape(const View& view, const std::vector<SymbolicSize>& shape, const BatchSizes& sizes) {
  if (view.rank() != static_cast<int>(shape.size())) return false;
  for (int d = 0; d < view.rank(); ++d)
    if (view.size(d) != shape[static_cast<size_t>(d)].at(sizes)) return false;
  return true;
}

bool is_phase(GraphPhase phase, const AttentionMetadata& batch) {
  const bool decodes = batch.decode.num_sequences > 0, prefills = batch.prefill.num_sequences > 0;
  if (phase == GraphPhase::kMixed) return decodes && prefills;
  return phase == GraphPhase::kDecode ? decodes && !prefills : prefills && !decodes;
}

}  // namespace

void PlanArena::grow(size_t bytes) {
  if (bytes <= memory.size()) return;
  if (device == kCpu) {
    memory = Buffer();  // first, so that both never exist at the same time
    memory = Buffer(bytes);
  } else {
    // Twice as much as before at least, so that all of those before are no more than this one.
    bytes = std::max(bytes, 2 * memory.size());
    if (memory.size() > 0) before.push_back(std::move(memory));
    memory = Buffer(bytes, device);
  }
  ++moves;
}

PlanExecutor::PlanExecutor(const Graph& graph, Node& root, const Node::Lookup& weight, const FindRegions& find,
                           const PlanOptions& options)
    : phase_(graph.phase), root_(root), options_(options), states_(collect_states(root)) {
  if (options_.arena == nullptr) options_.arena = std::make_shared<PlanArena>(PlanArena{.device = options_.device});
  if (options_.check_every_step) NamedFaults::install();
  TreeCalls calls = calls_of_tree(graph, root);
  flat_ = std::move(calls.flat);
  nodes_ = std::move(calls.nodes);
  find_externals(weight);
  if (find) regions_ = find(phase_, flat_);
  for (const PlannedRegion& region : regions_) {
    std::string path;
    for (size_t node : region.region.nodes)
      if (path.empty() && node < flat_.nodes.size()) path = flat_.nodes[node].path;
    region_texts_.push_back({region_name(flat_, region.region), path});
  }
  layout_with(regions_at_first());
}

PlanExecutor::~PlanExecutor() = default;

void PlanExecutor::find_externals(const Node::Lookup& weight) {
  const OperatorInfo& model = root_.info();
  auto argument = [&](std::string_view name) {
    for (size_t i = 0; i < model.args.size(); ++i)
      if (model.args[i].name == name) return i;
    throw Error("{} has no argument '{}'; the graph was made by another version.", flat_.op, name);
  };
  logits_argument_ = logits_argument(model);
  for (size_t i = 0; i < states_.size(); ++i)
    (states_[i].per_token() ? per_token_state_ : per_sequence_state_) = static_cast<int>(i);
  for (ValueId id : flat_.inputs) {
    const GraphValue& value = flat_.values[static_cast<size_t>(id)];
    External external{.kind = value.kind, .dtype = value.dtype, .shape = value.shape, .name = value.name};
    if (value.kind == ValueKind::kArgument) {
      external.index = argument(value.name);
    } else if (value.kind == ValueKind::kParameter) {
      external.index = weights_.size();
      weights_.push_back(weight(value.name));
      std::string why;
      if (!fits(external, &weights_.back(), {}, &why)) throw Error("{}", why);
    } else if (value.kind == ValueKind::kBatch) {
      external.index = batch_parts_.size();
      BatchPart part;
      std::string_view name = value.name;
      constexpr std::string_view kDecode = "batch.decode.", kPrefill = "batch.prefill.";
      if (name.starts_with(kDecode)) part.group = &AttentionMetadata::decode;
      if (name.starts_with(kPrefill)) part.group = &AttentionMetadata::prefill;
      if (part.group != nullptr) {
        name = name.substr(name.rfind('.') + 1);
        part.part = name == "cu_seqlens_q"   ? &SequenceGroup::cu_seqlens_q
                    : name == "cu_seqlens_k" ? &SequenceGroup::cu_seqlens_k
                    : name == "seq_lens"     ? &SequenceGroup::seq_lens
                    : name == "block_table"  ? &SequenceGroup::block_table
                    : name == "state_slots"  ? &SequenceGroup::state_slots
                                             : nullptr;
      }
      if (part.group == nullptr ? name != "batch.slot_mapping" : part.part == nullptr)
        throw Error("A batch has no metadata named '{}'.", value.name);
      batch_parts_.push_back(part);
    } else {
      auto at = std::find_if(states_.begin(), states_.end(), [&](const StateSpec& s) { return s.name == value.name; });
      if (at == states_.end()) throw Error("The model has no state '{}', which its graph names.", value.name);
      external.index = static_cast<size_t>(at - states_.begin());
    }
    externals_.push_back(std::move(external));
  }
  for (const GraphOperand& o : flat_.outputs) {
    const GraphValue& value = flat_.values[static_cast<size_t>(o.value)];
    External external{.kind = ValueKind::kArgument, .dtype = value.dtype, .shape = value.shape, .name = o.name};
    external.output = true;
    // A state has been updated in place, and is no argument.
    bool state = std::any_of(states_.begin(), states_.end(), [&](const StateSpec& s) { return s.name == o.name; });
    external.index = state ? model.args.size() : argument(o.name);
    externals_.push_back(std::move(external));
  }
}

const View* PlanExecutor::external_view(const External& external, const Context& ctx, Args args) const {
  switch (external.kind) {
    case ValueKind::kArgument:
      return external.index < args.size() && args[external.index] ? &*args[external.index] : nullptr;
    case ValueKind::kParameter:
      return &weights_[external.index];
    case ValueKind::kState:
      return external.index < ctx.states.size() ? &ctx.states[external.index] : nullptr;
    case ValueKind::kBatch: {
      const BatchPart& part = batch_parts_[external.index];
      return part.group == nullptr ? &ctx.attention->slot_mapping : &(ctx.attention->*part.group.*part.part);
    }
    case ValueKind::kResult:
      break;
  }
  return nullptr;
}

BatchSizes PlanExecutor::sizes_of(const Context& ctx, Args args) const {
  const AttentionMetadata& batch = *ctx.attention;
  BatchSizes sizes;
  sizes[SizeSymbol::kTokens] = batch.num_tokens();
  sizes[SizeSymbol::kSequences] = batch.decode.num_sequences + batch.prefill.num_sequences;
  sizes[SizeSymbol::kDecoding] = batch.decode.num_sequences;
  for (const SequenceGroup* group : {&batch.decode, &batch.prefill})
    if (group->num_sequences > 0 && group->block_table.rank() == 2)
      sizes[SizeSymbol::kPages] = group->block_table.size(1);
  sizes[SizeSymbol::kPageSize] = batch.page_size;
  auto rows = [&](int state) {
    return state >= 0 && static_cast<size_t>(state) < ctx.states.size() ? ctx.states[static_cast<size_t>(state)].size(0)
                                                                        : int64_t{0};
  };
  sizes[SizeSymbol::kBlocks] = rows(per_token_state_);
  sizes[SizeSymbol::kSlots] = rows(per_sequence_state_);
  if (logits_argument_ && *logits_argument_ < args.size() && args[*logits_argument_])
    sizes[SizeSymbol::kLogits] = args[*logits_argument_]->size(0);
  return sizes;
}

bool PlanExecutor::fits(const External& external, const View* view, const BatchSizes& sizes, std::string* why) const {
  if (view == nullptr ? external.output : view->dtype() == external.dtype && same_shape(*view, external.shape, sizes))
    return true;
  if (why != nullptr) {
    std::string wanted;
    for (const SymbolicSize& s : external.shape) wanted += fmt::format("{}{}", wanted.empty() ? "" : ", ", s.at(sizes));
    *why = fmt::format("'{}' is {}, and the graph needs {}[{}].", external.name,
                       view == nullptr ? "absent" : view->str(), dtype_name(external.dtype), wanted);
  }
  return false;
}

bool PlanExecutor::takes(const Context& ctx, Args args, std::string* why) {
  return frame_for(ctx, args, why) != nullptr;
}

PlanExecutor::Frame* PlanExecutor::frame_for(const Context& ctx, Args args, std::string* why) {
  if (ctx.attention == nullptr || !is_phase(phase_, *ctx.attention)) {
    if (why != nullptr)
      *why = fmt::format("The graph is of the phase {}, and the batch has {} decoding and {} prefilling sequences.",
                         phase_name(phase_), ctx.attention == nullptr ? 0 : ctx.attention->decode.num_sequences,
                         ctx.attention == nullptr ? 0 : ctx.attention->prefill.num_sequences);
    return nullptr;
  }
  const BatchSizes sizes = sizes_of(ctx, args);
  auto is_this = [&](const Frame& frame) {
    if (frame.sizes.of != sizes.of || frame.arena_moves != options_.arena->moves) return false;
    for (size_t i = 0; i < externals_.size(); ++i) {
      const View* view = external_view(externals_[i], ctx, args);
      if (view == nullptr ? frame.externals[i].data() != nullptr : !same_view(*view, frame.externals[i])) return false;
    }
    return true;
  };
  for (size_t i = 0; i < frames_.size(); ++i)
    if (is_this(*frames_[i])) {
      std::rotate(frames_.begin(), frames_.begin() + static_cast<std::ptrdiff_t>(i),
                  frames_.begin() + static_cast<std::ptrdiff_t>(i) + 1);
      return frames_.front().get();
    }
  auto frame = std::make_unique<Frame>();
  frame->sizes = sizes;
  for (const External& external : externals_) {
    const View* view = external_view(external, ctx, args);
    if (!fits(external, view, sizes, why)) return nullptr;
    frame->externals.push_back(view == nullptr ? View() : *view);
  }
  build(*frame);
  if (frames_.size() == kMostFrames) frames_.pop_back();
  frames_.insert(frames_.begin(), std::move(frame));
  return frames_.front().get();
}

PlanExecutor::Layout& PlanExecutor::layout_with(const std::vector<bool>& active) {
  std::unique_ptr<Layout>& layout = layouts_[active];
  if (layout == nullptr) {
    // Steps name regions by their number among all of them.
    std::vector<const Region*> list;
    std::vector<size_t> numbers;
    for (size_t i = 0; i < regions_.size(); ++i)
      if (active[i]) {
        list.push_back(&regions_[i].region);
        numbers.push_back(i);
      }
    layout = std::make_unique<Layout>();
    layout->plan = make_layout(flat_, phase_, list);
    for (PlanStep& step : layout->plan.steps)
      if (step.kind == PlanStep::Kind::kRegion) step.index = numbers[step.index];
  }
  return *layout;
}

std::vector<bool> PlanExecutor::regions_at_first() const {
  std::vector<bool> active;
  for (const PlannedRegion& region : regions_) active.push_back(region.instead_of < 0);
  return active;
}

void PlanExecutor::build(Frame& frame) {
  frame.active = regions_at_first();
  do {
    frame.layout = &layout_with(frame.active);
    place_values(frame);
  } while (drop_refused(frame));
}

// Regions whose kernel does not take these arrays become calls again, or the regions that are there for that.
bool PlanExecutor::drop_refused(Frame& frame) {
  bool dropped = false;
  for (const FrameStep& step : frame.steps) {
    if (step.kind != PlanStep::Kind::kRegion) continue;
    const PlannedRegion& region = regions_[step.index];
    std::span<const View> views(frame.views.data() + step.first, step.count);
    if (region.kernel->refuse(views.first(step.inputs), views.subspan(step.inputs)).empty()) continue;
    frame.active[step.index] = false;
    for (size_t i = 0; i < regions_.size(); ++i)
      if (regions_[i].instead_of == static_cast<int>(step.index)) frame.active[i] = true;
    dropped = true;
  }
  return dropped;
}

void PlanExecutor::place_values(Frame& frame) {
  const PlanLayout& layout = frame.layout->plan;
  // The caller's memory, where it is dense; else memory of the arena, which is copied there at the end.
  std::vector<std::byte*> bases(layout.memory.size(), nullptr);
  std::vector<ArenaRequest> requests;
  std::vector<size_t> of_request;
  std::vector<Shape> shapes;
  frame.late_copies.clear();
  for (size_t m = 0; m < layout.memory.size(); ++m) {
    const PlannedMemory& memory = layout.memory[m];
    shapes.push_back(shape_at(memory.shape, frame.sizes));
    if (memory.inside >= 0) continue;
    if (memory.output >= 0) {
      const View& out = frame.externals[flat_.inputs.size() + static_cast<size_t>(memory.output)];
      if (out.data() != nullptr && out.contiguous()) {
        bases[m] = static_cast<std::byte*>(out.data());
        continue;
      }
    }
    of_request.push_back(m);
    requests.push_back(
        {static_cast<size_t>(shapes.back().numel()) * dtype_size(memory.dtype), memory.first, memory.last});
  }
  ArenaPlan plan = plan_arena(requests, frame.layout->memory_order);
  frame.layout->memory_order = plan.order;
  frame.arena_bytes = plan.bytes;
  frame.lower_bound = plan.lower_bound;
  options_.arena->grow(std::max(plan.bytes, kPlanAlignment));
  frame.arena_moves = options_.arena->moves;
  for (size_t i = 0; i < requests.size(); ++i) bases[of_request[i]] = options_.arena->memory.data() + plan.offsets[i];
  // A concatenation has a higher number than its parts.
  for (size_t m = layout.memory.size(); m-- > 0;) {
    const PlannedMemory& memory = layout.memory[m];
    if (memory.inside < 0) continue;
    const Shape& all = shapes[static_cast<size_t>(memory.inside)];
    const int64_t row = all[0] == 0 ? 0 : all.numel() / all[0];
    bases[m] = bases[static_cast<size_t>(memory.inside)] +
               memory.first_row.at(frame.sizes) * row * static_cast<int64_t>(dtype_size(memory.dtype));
  }

  std::vector<View> views(layout.places.size());
  for (int id : layout.order) {
    const PlanPlace& place = layout.places[static_cast<size_t>(id)];
    View& view = views[static_cast<size_t>(id)];
    const auto of = static_cast<size_t>(place.of);
    switch (place.kind) {
      case PlanPlace::Kind::kNone:
        break;
      case PlanPlace::Kind::kExternal:
        view = frame.externals[of];
        break;
      case PlanPlace::Kind::kMemory:
        view = View(bases[of], shapes[of], place.dtype, options_.device);
        break;
      case PlanPlace::Kind::kSame:
        view = views[of];
        break;
      case PlanPlace::Kind::kSlice: {
        view = views[of];
        const Shape shape = shape_at(place.shape, frame.sizes);
        for (int d = 0; d < shape.rank(); ++d)
          view = view.narrow(d, place.starts[static_cast<size_t>(d)].at(frame.sizes), shape[d]);
        break;
      }
      case PlanPlace::Kind::kReshape: {
        std::optional<View> other = reshaped_view(views[of], shape_at(place.shape, frame.sizes));
        FK_CHECK(other.has_value(), "a reshape needs a copy for some sizes and not for others");
        view = *other;
        break;
      }
    }
  }
  frame.take_steps(layout, views, nodes_, regions_);
  for (size_t m = 0; m < layout.memory.size(); ++m) {
    if (layout.memory[m].output < 0) continue;
    const View& out = frame.externals[flat_.inputs.size() + static_cast<size_t>(layout.memory[m].output)];
    if (out.data() != nullptr && bases[m] != out.data())
      frame.late_copies.push_back({View(bases[m], out.spec(), options_.device), out});
  }
}

void PlanExecutor::run(Context& ctx, Args args) {
  std::string why;
  Frame* frame = frame_for(ctx, args, &why);
  if (frame == nullptr) throw Error("{}", why);
  run_frame(ctx, *frame);
}

bool PlanExecutor::comes_first(const BatchSizes& sizes) {
  auto known = [&](const auto& one) { return one->sizes.of == sizes.of; };
  if (std::any_of(frames_.begin(), frames_.end(), known)) return false;
  if (std::any_of(seen_.begin(), seen_.end(), [&](const BatchSizes& s) { return s.of == sizes.of; })) return false;
  if (seen_.size() < kMostSeen)
    seen_.push_back(sizes);
  else
    seen_[next_seen_++ % kMostSeen] = sizes;
  return true;
}

bool PlanExecutor::run_if_it_fits(Context& ctx, Args args) {
  // What decodes is recorded on a device when it comes the second time, and memory cannot grow then.
  if (options_.only_repeated_sizes && phase_ != GraphPhase::kDecode && comes_first(sizes_of(ctx, args))) return false;
  Frame* frame = frame_for(ctx, args, nullptr);
  if (frame == nullptr) return false;
  run_frame(ctx, *frame);
  return true;
}

void PlanExecutor::run_frame(Context& ctx, Frame& frame) {
  const bool careful = options_.check_every_step;
  auto* observer = ctx.observer == nullptr ? nullptr : dynamic_cast<PlanObserver*>(ctx.observer);
  if (observer != nullptr) observer->before_pass();
  for (size_t i = 0; i < frame.steps.size(); ++i) {
    Arena::Mark scratch = ctx.arena.mark();
    if (careful) [[unlikely]]
      run_checked(ctx, frame, i);
    else
      run_step(ctx, frame, i);
    ctx.arena.release(scratch);
  }
  for (const auto& [from, to] : frame.late_copies) copy_array(from, to);
  if (observer != nullptr) observer->after_pass();
}

void PlanExecutor::run_step(Context& ctx, Frame& frame, size_t index) {
  const FrameStep& step = frame.steps[index];
  if (step.kind == PlanStep::Kind::kCall) [[likely]]
    return step.node->call(ctx, Args(frame.args.data() + step.first, step.count));
  std::span<const View> views(frame.views.data() + step.first, step.count);
  if (step.kind == PlanStep::Kind::kCopy) return copy_array(views[0], views[1]);
  auto* observer = ctx.observer == nullptr ? nullptr : dynamic_cast<PlanObserver*>(ctx.observer);
  const RegionText& text = region_texts_[step.index];
  if (observer != nullptr)
    observer->before_region(text.name, text.path, views.first(step.inputs), views.subspan(step.inputs));
  regions_[step.index].kernel->run(ctx, views.first(step.inputs), views.subspan(step.inputs));
  if (observer != nullptr) observer->after_region();
}

std::string PlanExecutor::step_name(const Frame& frame, size_t index) const {
  const FrameStep& step = frame.steps[index];
  if (step.kind == PlanStep::Kind::kCopy) return "a copy";
  if (step.kind == PlanStep::Kind::kCall) return fmt::format("{} at '{}'", step.node->info().name, step.node->path());
  return fmt::format("the region {} at '{}'", region_texts_[step.index].name, region_texts_[step.index].path);
}

void PlanExecutor::run_checked(Context& ctx, Frame& frame, size_t index) {
  try {
    const NamedFaults named(
        fmt::format("Step {} of {}, {}, crashed.", index + 1, frame.steps.size(), step_name(frame, index)));
    run_step(ctx, frame, index);
  } catch (const std::exception& e) {
    throw Error("Step {} of {}, {}, failed: {}", index + 1, frame.steps.size(), step_name(frame, index), e.what());
  }
  check_finite(frame, index);
}

// Of what the step has written. The states are left out: they also hold what other sequences wrote.
void PlanExecutor::check_finite(const Frame& frame, size_t index) const {
  const FrameStep& step = frame.steps[index];
  auto check = [&](const View& view, std::string_view name) {
    for (const View& external : frame.externals)
      if (external.data() == view.data() && !is_output(frame, external)) return;
    // The logarithm of a sum over no keys is -inf.
    if (std::optional<std::string> found = first_not_finite(view, name == "lse"))
      throw Error("Step {} of {}, {}, gave {} in its output{}.", index + 1, frame.steps.size(), step_name(frame, index),
                  *found, name.empty() ? "" : fmt::format(" '{}'", name));
  };
  if (step.kind == PlanStep::Kind::kCall) {
    const std::vector<ArgSpec>& specs = step.node->info().args;
    for (size_t i = 0; i < step.count; ++i)
      if (const OptView& view = frame.args[step.first + i]; view && specs[i].role != Role::kInput)
        check(*view, specs[i].name);
  } else if (step.kind == PlanStep::Kind::kRegion) {
    const Region& region = regions_[step.index].region;
    for (size_t i = 0; i < region.outputs.size(); ++i) {
      std::string_view name;
      for (size_t node : region.nodes)
        for (const GraphOperand& o : flat_.nodes[node].outputs)
          if (o.value == region.outputs[i].value) name = o.name;
      check(frame.views[step.first + step.inputs + i], name);
    }
  }
}

bool PlanExecutor::is_output(const Frame& frame, const View& external) const {
  return static_cast<size_t>(&external - frame.externals.data()) >= flat_.inputs.size();
}

PlanReport PlanExecutor::report() const {
  PlanReport report;
  report.layouts = static_cast<int64_t>(frames_.size());
  if (frames_.empty()) return report;
  const Frame& frame = *frames_.front();
  report.arena_bytes = frame.arena_bytes;
  report.lower_bound_bytes = frame.lower_bound;
  report.steps = static_cast<int64_t>(frame.steps.size());
  for (const FrameStep& step : frame.steps) {
    report.calls += step.kind == PlanStep::Kind::kCall ? 1 : 0;
    report.regions += step.kind == PlanStep::Kind::kRegion ? 1 : 0;
    report.copies += step.kind == PlanStep::Kind::kCopy ? 1 : 0;
  }
  report.copies += static_cast<int64_t>(frame.late_copies.size());
  for (size_t i = 0; i < regions_.size(); ++i)
    report.refused_regions += regions_[i].instead_of < 0 && !frame.active[i] ? 1 : 0;
  return report;
}

std::string region_name(const GraphBody& body, const Region& region) {
  std::string name;
  for (size_t node : region.nodes)
    if (node < body.nodes.size() && body.nodes[node].is_call())
      name += fmt::format("{}{}", name.empty() ? "" : " + ", body.nodes[node].op);
  return name;
}

}  // namespace fk
