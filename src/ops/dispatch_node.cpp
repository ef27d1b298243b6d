#include "ops/dispatch_node.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <functional>

#include "core/debug_sync.h"
#include "core/device_runtime.h"
#include "core/error.h"
#include "core/tuned_choice.h"
#include "ops/op.h"
#include "ops/span_observer.h"
#include "ops/unfused.h"

namespace fk {
namespace {

std::string child_path(const Node* parent, std::string_view name) {
  if (parent == nullptr || parent->path().empty()) return std::string(name);
  if (name.empty()) return parent->path();
  return parent->path() + "." + std::string(name);
}

bool has_candidate(const OperatorInfo& op) {
  return std::any_of(op.implementations.begin(), op.implementations.end(),
                     [](const ImplementationInfo& i) { return i.foreign != nullptr; });
}

bool usable(const OperatorInfo& op, const ImplementationInfo& implementation, const BuildOptions& options) {
  if (op.name == options.only_operator) return implementation.name == options.only_implementation;
  if (options.oracle) return implementation.is_oracle || implementation.any_device;
  if (implementation.any_device) return true;
  if (implementation.device != options.device.kind) return false;
  return implementation.unavailable == nullptr || implementation.unavailable().empty();
}

[[noreturn]] void throw_no_implementation(std::string_view op, const BuildOptions& options) {
  if (options.only_operator == op)
    throw Error("The operator {} has no implementation for device {} named '{}'.", op, device_name(options.device),
                options.only_implementation);
  throw Error("The operator {} has no implementation for device {}{}.", op, device_name(options.device),
              options.device == kCpu ? "" : "; use --device cpu");
}

std::string call_text(const OperatorInfo& info, Args args) {
  std::string text;
  for (size_t i = 0; i < args.size(); ++i)
    text += fmt::format("{}{}: {}", i == 0 ? "" : ", ", info.args[i].name, args[i] ? args[i]->str() : "none");
  return text;
}

void check_call(const Node& node, Args args, DeviceKind device) {
  const OperatorInfo& info = node.info();
  for (size_t i = 0; i < args.size(); ++i) {
    if (!args[i]) {
      if (!info.args[i].optional)
        throw Error("{} ({}) was called without its argument '{}'.", info.name, node.path(), info.args[i].name);
    } else if (args[i]->device().kind != device) {
      throw Error("{} runs on {} but its argument '{}' is on {}; nothing is copied silently.", info.name,
                  device == DeviceKind::kCpu ? "cpu" : "cuda", info.args[i].name, device_name(args[i]->device()));
    }
  }
}

// Runs forward() and waits for the device; an error then names the operator, the implementation and the arguments.
void call_and_wait(const Node& node, const ImplementationInfo& implementation, Args args,
                   const std::function<void()>& forward) {
  try {
    forward();
    for (const OptView& v : args)
      if (v && v->device() != kCpu) return device_runtime(v->device()).synchronize();
  } catch (const Error& error) {
    throw Error("{} by {}{} failed on ({}): {}", node.info().name, implementation.name,
                node.path().empty() ? "" : " at " + node.path(), call_text(node.info(), args), error.what());
  }
}

}  // namespace

DispatchNode::DispatchNode(Builder& builder, const OperatorInfo& info, std::string_view name, Fields init)
    : Node(info, child_path(builder.parent_, name), std::move(init)), device_(builder.options_.device) {
  if (builder.parent_ != nullptr) builder.parent_->adopt(*this);
}

void DispatchNode::complete(Builder& builder, std::vector<ParamSpec> params, std::vector<StateSpec> states) {
  params_ = std::move(params);
  states_ = std::move(states);
  if (!path_.empty()) {
    for (ParamSpec& p : params_) p.name = path_ + "." + p.name;
    for (StateSpec& s : states_) s.name = path_ + "." + s.name;
  }
  const BuildOptions& options = builder.options_;
  Node* outer = std::exchange(builder.parent_, this);
  for (const ImplementationInfo& candidate : info_.implementations) {
    if (!usable(info_, candidate, options)) {
      // A fused implementation takes its weights from the parts, so they are made even if the composition is not
      // wanted.
      if (candidate.any_device && info_.name == options.only_operator) parts_ = create(candidate, builder);
      continue;
    }
    Slot slot{&candidate};
    if (candidate.any_device) slot.implementation = create(candidate, builder);
    if (candidate.foreign != nullptr) {
      std::unique_ptr<ForeignOperator> foreign = candidate.foreign->create(init_);
      slot.foreign = foreign.get();
      slot.implementation = adapt(std::move(foreign));
    }
    slots_.push_back(std::move(slot));
  }
  builder.parent_ = outer;
  // The parts are known now. With a fused implementation a candidate for one of them would not be used.
  if (info_.name != options.only_operator && a_part_has_a_candidate())
    std::erase_if(slots_, [](const Slot& slot) { return slot.info->fused; });
  // A candidate is not given the communicator, so it cannot add up what the ranks computed.
  if (has_candidate_between_ranks()) std::erase_if(slots_, [](const Slot& slot) { return slot.foreign != nullptr; });
  if (slots_.empty()) throw_no_implementation(info_.name, options);
  if (outer == nullptr) number_states(0);
}

bool DispatchNode::a_part_has_a_candidate() const {
  bool found = false;
  for (const Node* child : children_)
    walk(*child, [&](const Node& part, int) {
      found = found || has_candidate(part.info()) || is_left_unfused(part.info().name);
    });
  return found;
}

bool DispatchNode::has_candidate_between_ranks() const {
  if (std::none_of(slots_.begin(), slots_.end(), [](const Slot& slot) { return slot.foreign != nullptr; }))
    return false;
  bool found = false;
  walk(*this, [&](const Node& part, int) {
    const FieldValue* ranks = part.info().collective ? find_field(part.init(), "world_size") : nullptr;
    found = found || (ranks != nullptr && std::get<int64_t>(*ranks) > 1);
  });
  return found;
}

Operator& DispatchNode::made(Slot& slot) const {
  if (slot.implementation == nullptr) {
    Builder builder(BuildOptions{.device = device_});
    slot.implementation = create(*slot.info, builder);
    slot.implementation->place_states(first_state_, num_states_);
    if (is_bound_) bind_slot(slot);
  }
  return *slot.implementation;
}

std::vector<const ImplementationInfo*> DispatchNode::implementations() const {
  std::vector<const ImplementationInfo*> list;
  for (const Slot& slot : slots_) list.push_back(slot.info);
  return list;
}

// Calls of an implementation with the size class of these.
int64_t& DispatchNode::count_of(Slot& slot, Args args) {
  const int64_t rows = args[0] && args[0]->rank() > 0 ? args[0]->size(0) : 1;
  const auto size_class = static_cast<size_t>(std::bit_width(static_cast<uint64_t>(std::max<int64_t>(rows, 1) - 1)));
  return slot.calls[std::min<size_t>(kSizeClasses - 1, size_class)];
}

// For compositions, the operators they call wait for the device.
bool DispatchNode::waits_for_device(const Slot& slot) const {
  return device_.kind != DeviceKind::kCpu && !slot.info->any_device && debug_sync();
}

// A call by an implementation of this program, or by any other one if it has to wait for the device.
class DispatchNode::OwnCall final : public ReadyCall {
 public:
  OwnCall(const DispatchNode& node, const Slot& slot, Operator& implementation, Context& ctx, Args args)
      : node_(node),
        implementation_(implementation),
        ctx_(ctx),
        args_(args),
        waits_for_(node.waits_for_device(slot) ? slot.info : nullptr) {}

 private:
  void run() override {
    if (waits_for_ == nullptr) return node_.forward(implementation_, ctx_, args_);
    call_and_wait(node_, *waits_for_, args_, [&] { node_.forward(implementation_, ctx_, args_); });
  }

  const DispatchNode& node_;
  Operator& implementation_;
  Context& ctx_;
  const Args args_;
  const ImplementationInfo* waits_for_;
};

std::unique_ptr<ReadyCall> DispatchNode::ready(Context& ctx, Args args, std::string& refusal) {
  refusal.clear();
  check_call(*this, args, device_.kind);
  FK_CHECK(ctx.observer == nullptr, "a call that is made later has no observer");
  for (Slot& slot : slots_) {
    Operator& implementation = made(slot);
    if (std::string_view why = implementation.refuse(args); !why.empty()) {
      add_reason(refusal, slot, why);
      continue;
    }
    std::unique_ptr<ReadyCall> call;
    if (slot.foreign != nullptr && !waits_for_device(slot)) {
      Context own = ctx;
      if (!own.states.empty()) own.states = own.states.subspan(first_state_, num_states_);
      call = slot.foreign->ready(own, args);
    }
    if (call == nullptr) call = std::make_unique<OwnCall>(*this, slot, implementation, ctx, args);
    call->count_in(count_of(slot, args));
    return call;
  }
  return nullptr;
}

void DispatchNode::call(Context& ctx, Args args) {
  check_call(*this, args, device_.kind);
  if (ctx.observer != nullptr && !ctx.observer->before_call(*this, ctx, args)) return;
  SpanObserver* spans = ctx.observer == nullptr ? nullptr : dynamic_cast<SpanObserver*>(ctx.observer);
  for (Slot& slot : slots_) {
    // With an observer no fused implementation is used, since it would hide the operators inside.
    if (ctx.observer != nullptr && spans == nullptr && slot.info->fused) continue;
    Operator& implementation = made(slot);
    if (!implementation.refuse(args).empty()) continue;
    count_of(slot, args) += is_trial() ? 0 : 1;
    if (spans != nullptr) {
      forward(implementation, ctx, args);
      return spans->after_call(*this, slot.info->name);
    }
    if (!waits_for_device(slot)) [[likely]]
      return forward(implementation, ctx, args);
    return call_and_wait(*this, *slot.info, args, [&] { forward(implementation, ctx, args); });
  }
  throw Error("No implementation of {} takes ({}): {}", info_.name, call_text(info_, args), refusal(args));
}

const ImplementationInfo* DispatchNode::chosen(Args args) const {
  for (Slot& slot : slots_)
    if (made(slot).refuse(args).empty()) return slot.info;
  return nullptr;
}

std::string DispatchNode::refusal(Args args) const {
  std::string all;
  for (Slot& slot : slots_) {
    std::string_view why = made(slot).refuse(args);
    if (why.empty()) return {};
    add_reason(all, slot, why);
  }
  return all;
}

// The name of an implementation only where there are several.
void DispatchNode::add_reason(std::string& all, const Slot& slot, std::string_view why) const {
  if (!all.empty()) all += "; ";
  if (slots_.size() > 1) all.append(slot.info->name).append(": ");
  all += why;
}

void DispatchNode::count_dispatches(std::vector<DispatchCount>& counts) const {
  for (const Slot& slot : slots_)
    for (size_t i = 0; i < kSizeClasses; ++i)
      if (slot.calls[i] != 0) counts.push_back({info_.name, slot.info->name, int64_t{1} << i, slot.calls[i]});
}

void DispatchNode::place_own_states() {
  for (Slot& slot : slots_) {
    if (slot.implementation != nullptr) slot.implementation->place_states(first_state_, num_states_);
    if (slot.foreign != nullptr) slot.foreign->name_states(subtree_states());
  }
}

void DispatchNode::bind_own(const std::vector<View>& params, const Lookup& weight) {
  bound_ = params;
  if (std::any_of(slots_.begin(), slots_.end(), [](const Slot& s) { return s.info->fused || s.foreign != nullptr; }))
    subtree_ = subtree_params(weight);
  is_bound_ = true;
  for (Slot& slot : slots_)
    if (slot.implementation != nullptr) bind_slot(slot);
}

void DispatchNode::bind_slot(Slot& slot) const {
  if (slot.foreign != nullptr) return slot.foreign->bind(subtree_.first, subtree_.second);
  slot.implementation->bind(bound_);
  if (slot.info->fused)
    slot.implementation->bind_parts([&](std::string_view name) {
      auto found = std::find(subtree_.first.begin(), subtree_.first.end(), name);
      FK_CHECK(found != subtree_.first.end(), "a fused implementation asked for a weight that no part has");
      return subtree_.second[static_cast<size_t>(found - subtree_.first.begin())];
    });
}

}  // namespace fk
