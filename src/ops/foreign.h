// ForeignKernel: an implementation of an operator that was not compiled into this program (a user's candidate), with a
// type-erased interface. Registry::add_foreign puts one into an operator's ranked list like any other.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "ops/contract.h"
#include "ops/node.h"

namespace fk {

// One object of a foreign class, made for one node of a tree.
class ForeignOperator {
 public:
  virtual ~ForeignOperator() = default;

  // Why it does not support such a call; empty if it does.
  virtual std::string_view refuse(Args args) const = 0;
  // The weights of the node and of everything below it, since a foreign operator replaces its parts too. Names are
  // relative to the node. Called again whenever weights change.
  virtual void bind(std::span<const std::string> names, std::span<const View> params) = 0;
  // The states of the node and of everything below it, in tree order, with names relative to the node. Called once,
  // before any call.
  virtual void name_states(std::span<const StateSpec> states) { static_cast<void>(states); }
  // The context has exactly those states.
  virtual void forward(Context& ctx, Args args) = 0;
  // The same, to be made later, where that costs less; else none. `args` must stay valid as long as the result is used.
  virtual std::unique_ptr<ReadyCall> ready(const Context& ctx, Args args) {
    static_cast<void>(ctx), static_cast<void>(args);
    return nullptr;
  }
};

class ForeignKernel {
 public:
  virtual ~ForeignKernel() = default;
  virtual std::unique_ptr<ForeignOperator> create(const Fields& init) const = 0;
};

// Wraps a ForeignOperator in the typed interface of T.
template <class T, class Forward = decltype(&T::forward)>
class ForeignAdapter;

template <class T, class Base, class... A>
class ForeignAdapter<T, void (Base::*)(Context&, A...)> final : public T {
 public:
  ForeignAdapter(const typename T::Init& init, std::unique_ptr<ForeignOperator> foreign)
      : T(init), foreign_(std::move(foreign)) {}

  std::string_view refuse(Args args) const override { return foreign_->refuse(args); }
  void forward(Context& ctx, A... args) override {
    const OptView list[] = {OptView(args)...};
    Context own = ctx;
    own.states = this->subtree_states(ctx);
    foreign_->forward(own, list);
  }

 private:
  std::unique_ptr<ForeignOperator> foreign_;
};

}  // namespace fk
