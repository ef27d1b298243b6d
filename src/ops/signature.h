// The arguments of an operator's forward, by name and role, in the order forward takes them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "core/tensor.h"

namespace fk {

enum class Role : uint8_t {
  kInput,   // read only
  kState,   // read and written in place
  kOutput,  // written, never read
};

struct ArgSpec {
  std::string_view name;
  Role role;
  bool optional;
};

constexpr ArgSpec in(std::string_view name) { return {name, Role::kInput, false}; }
constexpr ArgSpec opt_in(std::string_view name) { return {name, Role::kInput, true}; }
constexpr ArgSpec state(std::string_view name) { return {name, Role::kState, false}; }
constexpr ArgSpec opt_state(std::string_view name) { return {name, Role::kState, true}; }
constexpr ArgSpec out(std::string_view name) { return {name, Role::kOutput, false}; }
constexpr ArgSpec opt_out(std::string_view name) { return {name, Role::kOutput, true}; }

// Outputs come last, so the arguments that a caller passes are a prefix of the list.
constexpr size_t count_given(std::span<const ArgSpec> args) {
  size_t n = 0;
  while (n < args.size() && args[n].role != Role::kOutput) ++n;
  return n;
}

// The arguments of one call. A whole call lists every argument of forward; `given` lists all but the outputs.
using Args = std::span<const OptView>;

inline constexpr size_t kMaxArgs = 10;
inline constexpr size_t kMaxOutputs = 3;

// Shapes of the outputs a call will have, in order; an optional output that is absent stays empty.
struct OutputSpecs {
  OutputSpecs(std::initializer_list<std::optional<TensorSpec>> list) {
    FK_CHECK(list.size() <= kMaxOutputs);
    size_t i = 0;
    for (const auto& spec : list) specs[i++] = spec;
  }
  std::array<std::optional<TensorSpec>, kMaxOutputs> specs;
};

}  // namespace fk
