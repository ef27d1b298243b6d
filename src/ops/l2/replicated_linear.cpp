#include "ops/l2/replicated_linear.h"

#include "ops/register.h"

namespace fk {

Linear::Init ReplicatedLinear::local(const Init& init) {
  return {.in_features = init.input_size, .out_features = out_features(init), .bias = init.bias, .dtype = init.dtype};
}

std::vector<Case<ReplicatedLinear>> ReplicatedLinear::cases() {
  return {
      {"plain", {.input_size = 48, .output_size = 80}, Workload::tokens(5)},
      {"bias added", {.input_size = 33, .output_size = 21, .bias = true}, Workload::tokens(3)},
      {"bias handed back",
       {.input_size = 33, .output_size = 21, .bias = true, .skip_bias_add = true},
       Workload::tokens(3)},
  };
}

namespace {
using ComposedReplicatedLinear = ComposedParallelLinear<ReplicatedLinear>;
FK_COMPOSITION(ReplicatedLinear, ComposedReplicatedLinear);
}  // namespace
}  // namespace fk
