// The contract: everything a class must define to be an operator. A missing part is a compile error that names it.
#pragma once

#include <array>
#include <concepts>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "ops/fields.h"
#include "ops/forward_context.h"
#include "ops/param.h"
#include "ops/signature.h"
#include "ops/state.h"
#include "ops/workload.h"

namespace fk {

// What all implementations of all operators have in common.
class Operator {
 public:
  virtual ~Operator() = default;

  // Why this implementation does not support such a call; empty if it does. Called before every dispatch: must be
  // cheap.
  virtual std::string_view refuse(Args) const { return {}; }

  // The weights, in the order the contract lists them. Called again whenever they change; an implementation that
  // derives something from them overrides prepare().
  void bind(std::vector<View> params) {
    params_ = std::move(params);
    prepare();
  }

  // For a fused implementation that replaces the operators below it too: returns a weight of the whole subtree by its
  // name relative to this operator. Called with bind().
  using PartWeight = std::function<View(std::string_view name)>;
  virtual void bind_parts(const PartWeight&) {}

  // Index of this operator's first state in the context, and how many it has together with the operators below it.
  // Called once, when the tree is complete.
  void place_states(size_t first, size_t count) {
    first_state_ = first;
    num_states_ = count;
  }

  // The default for operators without weights; operators with weights hide it with their own list.
  template <class Init>
  static std::vector<ParamSpec> params(const Init&) {
    return {};
  }
  // The same for operators without states.
  template <class Init>
  static std::vector<StateSpec> states(const Init&) {
    return {};
  }

 protected:
  virtual void prepare() {}
  const View& param(size_t i) const { return params_[i]; }
  bool has_param(size_t i) const { return i < params_.size(); }
  // The i-th state, in the order of the contract; those of the children follow in tree order, for an implementation
  // that replaces them too.
  const View& own_state(const Context& ctx, size_t i) const { return ctx.states[first_state_ + i]; }
  // The part of the context's states that belongs to this operator and those below it; empty if the context has none.
  std::span<const View> subtree_states(const Context& ctx) const {
    return ctx.states.empty() ? ctx.states : ctx.states.subspan(first_state_, num_states_);
  }

 private:
  std::vector<View> params_;
  size_t first_state_ = 0, num_states_ = 0;
};

template <class T>
concept NamesItself = requires {
  { T::kName } -> std::convertible_to<std::string_view>;   // "rms_norm": of files, scenarios and results
  { T::kClass } -> std::convertible_to<std::string_view>;  // "RMSNorm": vLLM's class
  { T::kLevel } -> std::convertible_to<int>;
};

template <class T>
concept HasInit = Visitable<typename T::Init> && std::constructible_from<typename T::Init>;

template <class T>
concept HasSignature = requires {
  {std::span<const ArgSpec>(T::kArgs)};
  &T::forward;
};

// Parameters with names relative to the operator; those of its parts are not repeated.
template <class T>
concept HasParams = requires(const typename T::Init& init) {
  { T::params(init) } -> std::same_as<std::vector<ParamSpec>>;
};

// The same for its states.
template <class T>
concept HasStates = requires(const typename T::Init& init) {
  { T::states(init) } -> std::same_as<std::vector<StateSpec>>;
};

template <class T>
concept InfersOutputs = requires(const typename T::Init& init, Args given) {
  { T::outputs(init, given) } -> std::same_as<OutputSpecs>;
};

template <class T>
concept MakesInputs = requires(const typename T::Init& init, const Workload& workload) {
  { T::inputs(init, workload) } -> std::same_as<Inputs>;
};

template <class T>
concept KnowsCost = requires(const typename T::Init& init, const Workload& workload) {
  { T::cost(init, workload) } -> std::same_as<Cost>;
};

template <class T>
concept StatesTolerance = requires(const typename T::Init& init, DType dtype) {
  { T::tolerance(init, dtype) } -> std::same_as<Tolerance>;
};

template <class T>
concept ListsCases = requires {
  { T::cases() } -> std::same_as<std::vector<Case<T>>>;
};

template <class T>
concept Contract = std::derived_from<T, Operator> && NamesItself<T> && HasInit<T> && HasSignature<T> && HasParams<T> &&
    HasStates<T> && InfersOutputs<T> && MakesInputs<T> && KnowsCost<T> && StatesTolerance<T> && ListsCases<T>;

// Tolerance of arithmetic done in float and rounded once to `dtype`, for sums of `terms` products.
Tolerance rounding_tolerance(DType dtype, double terms = 1);
// Tolerance of a composition that rounds to `dtype` between its parts.
Tolerance composed_tolerance(DType dtype, double terms = 1);

}  // namespace fk
