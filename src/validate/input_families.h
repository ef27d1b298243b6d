// Input families: the same call with other kinds of numbers and other shapes. Each detects a kind of wrong kernel that
// passes on plain random numbers.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "core/rng.h"
#include "ops/materialize.h"

namespace fk {

// Rewrites a dense float tensor in place. Element i may use random number i of the stream.
using Rewrite = void (*)(const View& tensor, const Stream& stream);

struct InputFamily {
  std::string_view name;
  Rewrite inputs = nullptr;   // for every free float input and state; null: as generated
  Rewrite weights = nullptr;  // for every weight; null: as generated
  // Every sum over these numbers is exact in float, in any order.
  bool exact = false;
  // Values that only the contract knows, where a generator says that there are some (Generator::may_be_special).
  bool special = false;
};

std::span<const InputFamily> input_families();
const InputFamily& standard_family();
const InputFamily& family_named(std::string_view name);  // throws Error that lists the families

// Changes two elements of every input: the last, and a random one. Used on data that a kernel has just seen at the same
// addresses, so it is not in the list of families.
const InputFamily& flip_last_family();
const InputFamily& flip_one_family();

// Whether families and factors may change an input. Not changed: indices, tables and positions, and floats whose range
// has a meaning (probabilities, temperatures), which are generated from an interval.
bool may_be_rewritten(const InputSpec& spec);
// Whether the family of special values changes an input of the call.
bool has_special_values(const Inputs& specs);
// Applies the family to inputs and states. `specs` describe how the data were generated.
void apply_to_inputs(const InputFamily& family, const Node& root, const Inputs& specs, CallData& data, uint64_t seed);
// `specs` describe the weights; those in a weight format are rounded to it again.
void apply_to_weights(const InputFamily& family, std::span<const ParamSpec> specs, std::span<const Tensor> params,
                      uint64_t seed);

// Valid workloads near the given one. Sequences are not longer than its longest, and one-token sequences stay so.
Workload random_workload(const Workload& like, const Stream& stream);  // other sequence mix, odd tails, optional inputs
Workload ragged_workload(const Workload& like);                        // one long sequence among the shortest possible

}  // namespace fk
