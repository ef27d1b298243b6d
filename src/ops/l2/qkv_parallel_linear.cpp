#include "ops/l2/qkv_parallel_linear.h"

#include <algorithm>

#include "ops/register.h"

namespace fk {

Linear::Init QKVParallelLinear::local(const Init& init) {
  // With more ranks than kv heads, ranks share one: each still holds at least one.
  int64_t q = init.total_num_heads / init.tp_size * init.head_size;
  int64_t kv = std::max<int64_t>(1, init.total_num_kv_heads / init.tp_size) * init.head_size;
  return {.in_features = init.hidden_size,
          .out_features = q + 2 * kv,
          .bias = init.bias,
          .output_sizes = {q, kv, kv},
          .dtype = init.dtype};
}

std::vector<Case<QKVParallelLinear>> QKVParallelLinear::cases() {
  return {
      {"grouped", {.hidden_size = 64, .head_size = 16, .total_num_heads = 4, .total_num_kv_heads = 2}, Workload::tokens(5)},
      {"one kv head, bias", {.hidden_size = 40, .head_size = 10, .total_num_heads = 3, .total_num_kv_heads = 1, .bias = true}, Workload::tokens(2)},
      {"more ranks than kv heads", {.hidden_size = 64, .head_size = 16, .total_num_heads = 8, .total_num_kv_heads = 2, .tp_size = 4}, Workload::tokens(2)},
  };
}

namespace {
using ComposedQKVParallelLinear = ComposedParallelLinear<QKVParallelLinear>;
FK_COMPOSITION(QKVParallelLinear, ComposedQKVParallelLinear);
}  // namespace
}  // namespace fk
