// FK_OPERATOR, FK_COMPOSITION, FK_IMPLEMENTATION: how operators and implementations enter the registry.
#pragma once

#include "ops/op.h"

namespace fk::detail {

template <Contract T>
OperatorInfo& declare_operator() {
  OperatorInfo& info = Registry::instance().declare(T::kName);
  info.class_name = T::kClass;
  info.level = T::kLevel;
  info.collective = requires { T::kCollective; };
  info.args.assign(T::kArgs.begin(), T::kArgs.end());
  info.cases = [] {
    std::vector<OperatorInfo::ErasedCase> cases;
    for (const auto& c : T::cases()) cases.push_back({c.label, to_fields(c.init), c.workload});
    return cases;
  };
  info.default_init = [] { return to_fields(typename T::Init{}); };
  info.inputs = [](const Fields& init, const Workload& w) { return T::inputs(from_fields<typename T::Init>(init), w); };
  info.possible = [](const Fields& init, const Workload& w) {
    if constexpr (requires(const typename T::Init& typed) { T::possible(typed, w); })
      return T::possible(from_fields<typename T::Init>(init), w);
    else
      return w;
  };
  info.states = [](const Fields& init) { return T::states(from_fields<typename T::Init>(init)); };
  info.cost = [](const Fields& init, const Workload& w) { return T::cost(from_fields<typename T::Init>(init), w); };
  info.tolerance = [](const Fields& init, DType t) { return T::tolerance(from_fields<typename T::Init>(init), t); };
  info.tolerance_on = [](const Fields& init, DType t, Args given) {
    auto typed = from_fields<typename T::Init>(init);
    if constexpr (requires { T::tolerance_on(typed, t, given); }) return T::tolerance_on(typed, t, given);
    return T::tolerance(typed, t);
  };
  info.build = [](const Fields& init, const BuildOptions& options) -> std::unique_ptr<Node> {
    Builder builder(options);
    return Registry::instance().at(T::kName).build_child(builder, "", init);
  };
  info.build_child = [](Builder& builder, std::string_view name, const Fields& init) -> std::unique_ptr<Node> {
    const OperatorInfo& own = Registry::instance().at(T::kName);
    auto typed = from_fields<typename T::Init>(init);
    return own.make_node(own, builder, name, &typed);
  };
  info.make_node = [](const OperatorInfo& own, Builder& builder, std::string_view name,
                      const void* init) -> std::unique_ptr<Node> {
    return std::make_unique<OpNode<T>>(own, builder, name, *static_cast<const typename T::Init*>(init));
  };
  if constexpr (requires(const typename T::Init& init, Args args) {
                  { T::judge(init, args, args) } -> std::same_as<std::string>;
                })
    info.judge = [](const Fields& init, Args call, Args reference) {
      return T::judge(from_fields<typename T::Init>(init), call, reference);
    };
  return info;
}

// Implementations take (init), compositions (init, builder). Returned as a T*, which OpNode<T> casts back to.
template <Contract T, class Implementation>
Operator* create(const void* init, Builder& builder) {
  const auto& typed = *static_cast<const typename T::Init*>(init);
  if constexpr (std::constructible_from<Implementation, const typename T::Init&, Builder&>)
    return static_cast<T*>(new Implementation(typed, builder));
  else
    return static_cast<T*>(new Implementation(typed));
}

inline constexpr int kOracleRank = -1000;
inline constexpr int kCompositionRank = -500;

template <Contract T, class Oracle>
bool register_operator() {
  declare_operator<T>();
  Registry::instance().add(T::kName,
                           {.name = "oracle", .rank = kOracleRank, .is_oracle = true, .create = &create<T, Oracle>});
  return true;
}

template <Contract T, class Composition>
bool register_composition() {
  declare_operator<T>();
  Registry::instance().add(
      T::kName, {.name = "composed", .rank = kCompositionRank, .any_device = true, .create = &create<T, Composition>});
  return true;
}

template <Contract T, class Implementation>
bool register_implementation(std::string_view name, DeviceKind device, int rank, std::string_view (*unavailable)(),
                             bool fused = false) {
  static_assert(!std::constructible_from<Implementation, const typename T::Init&, Builder&>,
                "only a composition has parts of its own");
  Registry::instance().add(T::kName, {.name = name,
                                      .device = device,
                                      .rank = rank,
                                      .fused = fused,
                                      .unavailable = unavailable,
                                      .create = &create<T, Implementation>});
  return true;
}

}  // namespace fk::detail

// An L1 operator and its float64 oracle, in the operator's .cpp file.
#define FK_OPERATOR(T, Oracle) \
  [[maybe_unused]] static const bool fk_registered_##T = ::fk::detail::register_operator<T, Oracle>()
// An L2-L4 operator and the one composition that is both its baseline and, in f64 over oracles, its reference.
#define FK_COMPOSITION(T, Composition) \
  [[maybe_unused]] static const bool fk_registered_##T = ::fk::detail::register_composition<T, Composition>()
// A backend's implementation. `unavailable` is a function that says why this machine cannot run it, or nullptr.
#define FK_IMPLEMENTATION(T, Implementation, name, device, rank, unavailable) \
  [[maybe_unused]] static const bool fk_registered_##Implementation =         \
      ::fk::detail::register_implementation<T, Implementation>(name, device, rank, unavailable)
// The same for a fused implementation, which computes all operators below it, too.
#define FK_FUSED_IMPLEMENTATION(T, Implementation, name, device, rank, unavailable) \
  [[maybe_unused]] static const bool fk_registered_##Implementation =               \
      ::fk::detail::register_implementation<T, Implementation>(name, device, rank, unavailable, true)
