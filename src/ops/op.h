// Op<T>: how a composition holds and calls an operator; Builder: how it gets one.
//
//   Op<RMSNorm> norm = builder.child<RMSNorm>("input_layernorm", {.hidden_size = D});
//   auto [hidden, residual] = norm(ctx, x, residual);
//
// A call infers the output shapes, allocates the outputs in the step's arena, tries the ranked implementations in
// order, and counts the dispatch.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <functional>
#include <memory>
#include <tuple>
#include <utility>

#include "core/debug_sync.h"
#include "ops/registry.h"

namespace fk {

template <Contract T>
class OpNode;
template <Contract T>
class Op;

class Builder {
 public:
  explicit Builder(const BuildOptions& options) : options_(options) {}

  // An operator named `name` under the one being built. An empty name: the child has the same prefix in the checkpoint.
  template <Contract T>
  Op<T> child(std::string_view name, const typename T::Init& init) {
    return Op<T>(std::make_unique<OpNode<T>>(*this, name, init));
  }

  const BuildOptions& options() const { return options_; }

 private:
  template <Contract T>
  friend class OpNode;

  BuildOptions options_;
  Node* parent_ = nullptr;
};

namespace detail {

[[noreturn]] void throw_all_refused(const Node& node, Args args);
[[noreturn]] void throw_no_implementation(std::string_view op, const BuildOptions& options);
void check_call(const OperatorInfo& info, const Node& node, Args args, DeviceKind device);
// Runs forward() and waits for the device; an error then names the operator, the implementation and the arguments.
void call_and_wait(const Node& node, const ImplementationInfo& implementation, Args args,
                   const std::function<void()>& forward);
std::string child_path(const Node* parent, std::string_view name);
bool usable(const OperatorInfo& op, const ImplementationInfo& implementation, const BuildOptions& options);

// Unpacks a list of views into forward's parameters, which are View where required and OptView where optional.
template <class T, size_t... I>
void invoke_forward(T& implementation, Context& ctx, Args args, std::index_sequence<I...>) {
  auto pass = [&]<size_t K>(std::integral_constant<size_t, K>) -> decltype(auto) {
    if constexpr (T::kArgs[K].optional)
      return (args[K]);
    else
      return (*args[K]);
  };
  implementation.forward(ctx, pass(std::integral_constant<size_t, I>{})...);
}

}  // namespace detail

template <Contract T>
class OpNode final : public Node {
 public:
  static constexpr size_t kNumArgs = T::kArgs.size();
  static constexpr size_t kNumGiven = count_given(T::kArgs);
  static constexpr size_t kNumOutputs = kNumArgs - kNumGiven;

  OpNode(Builder& builder, std::string_view name, const typename T::Init& init)
      : Node(Registry::instance().at(T::kName), detail::child_path(builder.parent_, name), to_fields(init)),
        typed_init_(init),
        device_(builder.options_.device.kind) {
    if (builder.parent_ != nullptr) builder.parent_->adopt(*this);
    params_ = T::params(init);
    for (ParamSpec& p : params_) p.name = path_.empty() ? p.name : path_ + "." + p.name;
    states_ = T::states(init);
    for (StateSpec& s : states_) s.name = path_.empty() ? s.name : path_ + "." + s.name;
    Node* outer = std::exchange(builder.parent_, this);
    for (const ImplementationInfo& candidate : info_.implementations) {
      if (!detail::usable(info_, candidate, builder.options_)) continue;
      slots_.push_back({create(candidate, builder), &candidate, {}});
    }
    builder.parent_ = outer;
    if (slots_.empty()) detail::throw_no_implementation(T::kName, builder.options_);
    if (outer == nullptr) number_states(0);
  }

  std::vector<const ImplementationInfo*> implementations() const override {
    std::vector<const ImplementationInfo*> list;
    for (const Slot& slot : slots_) list.push_back(slot.info);
    return list;
  }

  OutputSpecs outputs(Args given) const override { return T::outputs(typed_init_, given); }

  void call(Context& ctx, Args args) override {
    detail::check_call(info_, *this, args, device_);
    if (ctx.observer != nullptr && !ctx.observer->before_call(*this, ctx, args)) return;
    for (Slot& slot : slots_) {
      // With an observer no fused implementation is used, since it would hide the operators inside.
      if (ctx.observer != nullptr && !slot.info->stands_for.empty()) continue;
      if (!slot.implementation->refuse(args).empty()) continue;
      int64_t rows = args[0] && args[0]->rank() > 0 ? args[0]->size(0) : 1;
      ++slot.calls[std::min<size_t>(kSizeClasses - 1, static_cast<size_t>(std::bit_width(
                                                          static_cast<uint64_t>(std::max<int64_t>(rows, 1) - 1))))];
      auto forward = [&] {
        detail::invoke_forward(*slot.implementation, ctx, args, std::make_index_sequence<kNumArgs>{});
      };
      // For compositions, the operators they call do this.
      if (device_ == DeviceKind::kCpu || slot.info->any_device || !debug_sync()) [[likely]]
        return forward();
      return detail::call_and_wait(*this, *slot.info, args, forward);
    }
    detail::throw_all_refused(*this, args);
  }

  std::string refusal(Args args) const override {
    std::string all;
    for (const Slot& slot : slots_) {
      std::string_view why = slot.implementation->refuse(args);
      if (why.empty()) return {};
      all += fmt::format("{}{}: {}", all.empty() ? "" : "; ", slot.info->name, why);
    }
    return all;
  }

  void count_dispatches(std::vector<DispatchCount>& counts) const override {
    for (const Slot& slot : slots_)
      for (size_t i = 0; i < kSizeClasses; ++i)
        if (slot.calls[i] != 0) counts.push_back({T::kName, slot.info->name, int64_t{1} << i, slot.calls[i]});
  }

 protected:
  void place_own_states() override {
    for (Slot& slot : slots_) {
      slot.implementation->place_states(first_state_);
      if (slot.info->foreign != nullptr)
        static_cast<ForeignAdapter<T>&>(*slot.implementation).name_states(subtree_states());
    }
  }

  void bind_own(const std::vector<View>& params, const Lookup& weight) override {
    for (Slot& slot : slots_) {
      if (slot.info->foreign == nullptr) {
        slot.implementation->bind(params);
        slot.implementation->bind_parts([&](std::string_view name) {
          return weight(path_.empty() ? std::string(name) : path_ + "." + std::string(name));
        });
      } else {
        auto [names, views] = subtree_params(weight);
        static_cast<ForeignAdapter<T>&>(*slot.implementation).foreign().bind(names, views);
      }
    }
  }

 private:
  static constexpr size_t kSizeClasses = 24;
  struct Slot {
    std::unique_ptr<T> implementation;
    const ImplementationInfo* info;
    std::array<int64_t, kSizeClasses> calls;
  };

  std::unique_ptr<T> create(const ImplementationInfo& from, Builder& builder) const {
    if (from.foreign != nullptr)
      return std::make_unique<ForeignAdapter<T>>(typed_init_, from.foreign->create(this->init_));
    return std::unique_ptr<T>(static_cast<T*>(from.create(&typed_init_, builder)));
  }

  typename T::Init typed_init_;
  DeviceKind device_;
  std::vector<Slot> slots_;
};

template <Contract T>
class Op {
  using N = OpNode<T>;

  template <size_t I>
  using Output = std::conditional_t<T::kArgs[N::kNumGiven + I].optional, OptView, View>;

 public:
  explicit Op(std::unique_ptr<N> node) : node_(std::move(node)) {}

  Node& node() const { return *node_; }

  // Inputs and states in order; optional ones at the end may be left out. Returns nothing, the output, or all outputs.
  template <class... Given>
  auto operator()(Context& ctx, const Given&... given) const {
    static_assert(sizeof...(Given) <= N::kNumGiven, "more arguments than the operator takes");
    std::array<OptView, N::kNumArgs> args{OptView(given)...};
    if constexpr (N::kNumOutputs == 0) {
      call(ctx, args);
    } else {
      OutputSpecs wanted = node_->outputs(Args(args.data(), N::kNumGiven));
      for (size_t i = 0; i < N::kNumOutputs; ++i)
        if (wanted.specs[i]) args[N::kNumGiven + i] = ctx.arena.make(*wanted.specs[i]);
      call(ctx, args);
      return take(args, std::make_index_sequence<N::kNumOutputs>{});
    }
  }

  // A whole call with the outputs in memory the caller chose.
  template <class... All>
  void into(Context& ctx, const All&... all) const {
    static_assert(sizeof...(All) == N::kNumArgs, "into() takes every argument of forward");
    std::array<OptView, N::kNumArgs> args{OptView(all)...};
    call(ctx, args);
  }

 private:
  void call(Context& ctx, const std::array<OptView, N::kNumArgs>& args) const {
    Arena::Mark scratch = ctx.arena.mark();
    node_->call(ctx, args);
    ctx.arena.release(scratch);
  }

  template <size_t... I>
  static auto take(const std::array<OptView, N::kNumArgs>& args, std::index_sequence<I...>) {
    auto one = [&]<size_t K>(std::integral_constant<size_t, K>) -> Output<K> {
      if constexpr (T::kArgs[N::kNumGiven + K].optional)
        return args[N::kNumGiven + K];
      else
        return *args[N::kNumGiven + K];
    };
    if constexpr (sizeof...(I) == 1)
      return one(std::integral_constant<size_t, 0>{});
    else
      return std::tuple<Output<I>...>(one(std::integral_constant<size_t, I>{})...);
  }

  std::unique_ptr<N> node_;
};

}  // namespace fk
