// Input families: the same call with other kinds of numbers and other shapes, each made to show a kind of wrong kernel
// that passes on plain random numbers.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "core/rng.h"
#include "ops/materialize.h"

namespace fk {

// Rewrites a dense float tensor in place. Element i may use number i of the stream.
using Rewrite = void (*)(const View& tensor, const Stream& stream);

struct InputFamily {
  std::string_view name;
  Rewrite inputs = nullptr;   // of every free float input and state; null: as generated
  Rewrite weights = nullptr;  // of every weight; null: as generated
  // Every sum over these numbers is exact in float, whatever its order.
  bool exact = false;
};

std::span<const InputFamily> input_families();
const InputFamily& standard_family();
const InputFamily& family_named(std::string_view name);  // throws Error that lists those there are

// One element of every input changed, the last and one drawn from the stream. They belong on top of data a kernel has
// just seen at the same addresses, so they are not in the list.
const InputFamily& flip_last_family();
const InputFamily& flip_one_family();

// Whether families, and factors, change an input. Left alone: indices, tables and positions, and floats whose range has
// a meaning (probabilities, temperatures), which their generators draw from an interval.
bool may_be_rewritten(const InputSpec& spec);
// Applies the family to inputs and states. `specs` say how the data were made.
void apply_to_inputs(const InputFamily& family, const Node& root, const Inputs& specs, CallData& data, uint64_t seed);
void apply_to_weights(const InputFamily& family, std::span<const Tensor> params, uint64_t seed);

// Legal workloads near the one given. Sequences get no longer than its longest, and one-token sequences stay so.
Workload random_workload(const Workload& like, const Stream& stream);  // other sequence mix, odd tails, optional inputs
Workload ragged_workload(const Workload& like);                        // one long sequence among the shortest possible

}  // namespace fk
