#include "ops/l2/olmo2_attention.h"

#include "ops/l1/rms_norm.h"
#include "ops/register.h"

namespace fk {

std::vector<Case<Olmo2Attention>> Olmo2Attention::cases() {
  return {
      {"mixed",
       {.hidden_size = 52, .num_heads = 6, .num_kv_heads = 2, .head_dim = 10},
       Workload::batch({{1, 20}, {9, 0}, {4, 17}})},
      {"bias",
       {.hidden_size = 40, .num_heads = 5, .num_kv_heads = 5, .head_dim = 12, .bias = true, .bias_o_proj = true},
       Workload::batch({{5, 3}})},
  };
}

namespace {
using ComposedOlmo2Attention = ComposedAttentionBlock<Olmo2Attention, RMSNorm, QkNorm::kAllHeads>;
FK_COMPOSITION(Olmo2Attention, ComposedOlmo2Attention);
}  // namespace
}  // namespace fk
