#include "ops/l2/qkv_parallel_linear.h"

#include "ops/l2/tensor_parallel.h"
#include "ops/register.h"

namespace fk {

namespace {

int64_t q_rows(const QKVParallelLinear::Init& init) {
  return rank_share(init.total_num_heads, init.tp_size, "attention heads") * init.head_size;
}

int64_t kv_rows(const QKVParallelLinear::Init& init) {
  return rank_kv_heads(init.total_num_kv_heads, init.tp_size) * init.head_size;
}

}  // namespace

int64_t QKVParallelLinear::out_features(const Init& init) { return q_rows(init) + 2 * kv_rows(init); }

Linear::Init QKVParallelLinear::local(const Init& init) {
  return {.in_features = init.hidden_size,
          .out_features = out_features(init),
          .bias = init.bias,
          .output_sizes = {q_rows(init), kv_rows(init), kv_rows(init)},
          .dtype = init.dtype};
}

std::vector<Case<QKVParallelLinear>> QKVParallelLinear::cases() {
  return {
      {"grouped",
       {.hidden_size = 64, .head_size = 16, .total_num_heads = 4, .total_num_kv_heads = 2},
       Workload::tokens(5)},
      {"one kv head, bias",
       {.hidden_size = 40, .head_size = 10, .total_num_heads = 3, .total_num_kv_heads = 1, .bias = true},
       Workload::tokens(2)},
      {"more ranks than kv heads",
       {.hidden_size = 64, .head_size = 16, .total_num_heads = 8, .total_num_kv_heads = 2, .tp_size = 4},
       Workload::tokens(2)},
  };
}

namespace {
using ComposedQKVParallelLinear = ComposedParallelLinear<QKVParallelLinear>;
FK_COMPOSITION(QKVParallelLinear, ComposedQKVParallelLinear);
}  // namespace
}  // namespace fk
