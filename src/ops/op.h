// Op<T>: how a composition holds and calls an operator; Builder: how it gets one.
//
//   Op<RMSNorm> norm = builder.child<RMSNorm>("input_layernorm", {.hidden_size = D});
//   auto [hidden, residual] = norm(ctx, x, residual);
//
// A call infers the output shapes, allocates the outputs in the step's arena, tries the ranked implementations in
// order, and counts the dispatch.
#pragma once

#include <memory>
#include <tuple>
#include <utility>

#include "ops/dispatch_node.h"
#include "ops/registry.h"

namespace fk {

template <Contract T>
class Op;

class Builder {
 public:
  explicit Builder(const BuildOptions& options) : options_(options) {}

  // An operator named `name` under the one being built. An empty name: the child has the same prefix in the checkpoint.
  template <Contract T>
  Op<T> child(std::string_view name, const typename T::Init& init) {
    const OperatorInfo& info = Registry::instance().at(T::kName);
    return Op<T>(info.make_node(info, *this, name, &init));
  }

  const BuildOptions& options() const { return options_; }

 private:
  friend class DispatchNode;

  BuildOptions options_;
  Node* parent_ = nullptr;
};

namespace detail {

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

// What of a node depends on the operator's type. Everything else is DispatchNode, which is compiled once.
template <Contract T>
class OpNode final : public DispatchNode {
 public:
  OpNode(const OperatorInfo& info, Builder& builder, std::string_view name, const typename T::Init& init)
      : DispatchNode(builder, info, name, to_fields(init)), typed_init_(init) {
    complete(builder, T::params(init), T::states(init));
  }

  OutputSpecs outputs(Args given) const override { return T::outputs(typed_init_, given); }

 private:
  std::unique_ptr<Operator> create(const ImplementationInfo& from, Builder& builder) const override {
    return std::unique_ptr<Operator>(from.create(&typed_init_, builder));
  }
  std::unique_ptr<Operator> adapt(std::unique_ptr<ForeignOperator> foreign) const override {
    return std::make_unique<ForeignAdapter<T>>(typed_init_, std::move(foreign));
  }
  void forward(Operator& implementation, Context& ctx, Args args) const override {
    detail::invoke_forward(static_cast<T&>(implementation), ctx, args, std::make_index_sequence<T::kArgs.size()>{});
  }

  typename T::Init typed_init_;
};

template <Contract T>
class Op {
  static constexpr size_t kNumArgs = T::kArgs.size();
  static constexpr size_t kNumGiven = count_given(T::kArgs);
  static constexpr size_t kNumOutputs = kNumArgs - kNumGiven;

  template <size_t I>
  using Output = std::conditional_t<T::kArgs[kNumGiven + I].optional, OptView, View>;

 public:
  explicit Op(std::unique_ptr<Node> node) : node_(std::move(node)) {}

  Node& node() const { return *node_; }

  // Inputs and states in order; optional ones at the end may be left out. Returns nothing, the output, or all outputs.
  template <class... Given>
  auto operator()(Context& ctx, const Given&... given) const {
    static_assert(sizeof...(Given) <= kNumGiven, "more arguments than the operator takes");
    std::array<OptView, kNumArgs> args{OptView(given)...};
    if constexpr (kNumOutputs == 0) {
      call(ctx, args);
    } else {
      OutputSpecs wanted = node_->outputs(Args(args.data(), kNumGiven));
      for (size_t i = 0; i < kNumOutputs; ++i)
        if (wanted.specs[i]) args[kNumGiven + i] = ctx.arena.make(*wanted.specs[i]);
      call(ctx, args);
      return take(args, std::make_index_sequence<kNumOutputs>{});
    }
  }

  // A whole call with the outputs in memory the caller chose.
  template <class... All>
  void into(Context& ctx, const All&... all) const {
    static_assert(sizeof...(All) == kNumArgs, "into() takes every argument of forward");
    std::array<OptView, kNumArgs> args{OptView(all)...};
    call(ctx, args);
  }

 private:
  void call(Context& ctx, const std::array<OptView, kNumArgs>& args) const {
    Arena::Mark scratch = ctx.arena.mark();
    node_->call(ctx, args);
    ctx.arena.release(scratch);
  }

  template <size_t... I>
  static auto take(const std::array<OptView, kNumArgs>& args, std::index_sequence<I...>) {
    auto one = [&]<size_t K>(std::integral_constant<size_t, K>) -> Output<K> {
      if constexpr (T::kArgs[kNumGiven + K].optional)
        return args[kNumGiven + K];
      else
        return *args[kNumGiven + K];
    };
    if constexpr (sizeof...(I) == 1)
      return one(std::integral_constant<size_t, 0>{});
    else
      return std::tuple<Output<I>...>(one(std::integral_constant<size_t, I>{})...);
  }

  std::unique_ptr<Node> node_;
};

}  // namespace fk
