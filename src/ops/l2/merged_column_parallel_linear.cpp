#include "ops/l2/merged_column_parallel_linear.h"

#include "ops/l2/tensor_parallel.h"
#include "ops/register.h"

namespace fk {

int64_t MergedColumnParallelLinear::out_features(const Init& init) {
  int64_t sum = 0;
  for (int64_t size : init.output_sizes) sum += rank_share(size, init.tp_size, "output features");
  return sum;
}

Linear::Init MergedColumnParallelLinear::local(const Init& init) {
  Linear::Init local{
      .in_features = init.input_size, .out_features = out_features(init), .bias = init.bias, .dtype = init.dtype};
  for (int64_t size : init.output_sizes)
    local.output_sizes.push_back(rank_share(size, init.tp_size, "output features"));
  return local;
}

std::vector<Case<MergedColumnParallelLinear>> MergedColumnParallelLinear::cases() {
  return {
      {"gate and up", {.input_size = 48, .output_sizes = {96, 96}}, Workload::tokens(5)},
      {"three, bias", {.input_size = 33, .output_sizes = {8, 12, 20}, .bias = true}, Workload::tokens(3)},
      {"half", {.input_size = 48, .output_sizes = {96, 32}, .tp_size = 2}, Workload::tokens(2)},
  };
}

namespace {
using ComposedMergedColumnParallelLinear = ComposedParallelLinear<MergedColumnParallelLinear>;
FK_COMPOSITION(MergedColumnParallelLinear, ComposedMergedColumnParallelLinear);
}  // namespace
}  // namespace fk
