#include "ops/l2/qwen3_attention.h"

#include "ops/l1/rms_norm.h"
#include "ops/register.h"

namespace fk {

std::vector<Case<Qwen3Attention>> Qwen3Attention::cases() {
  return {
      {"mixed",
       {.hidden_size = 72, .num_heads = 6, .num_kv_heads = 3, .head_dim = 24},
       Workload::batch({{1, 20}, {9, 0}, {4, 17}})},
      {"heads wider than the model",
       {.hidden_size = 32, .num_heads = 4, .num_kv_heads = 2, .head_dim = 32},
       Workload::batch({{5, 3}})},
  };
}

namespace {
using ComposedQwen3Attention = ComposedAttentionBlock<Qwen3Attention, RMSNorm, QkNorm::kEachHead>;
FK_COMPOSITION(Qwen3Attention, ComposedQwen3Attention);
}  // namespace
}  // namespace fk
