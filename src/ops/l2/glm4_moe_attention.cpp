#include "ops/l2/glm4_moe_attention.h"

#include "ops/l1/rms_norm.h"
#include "ops/register.h"

namespace fk {

std::vector<Case<Glm4MoeAttention>> Glm4MoeAttention::cases() {
  return {
      {"normed, partial rotation",
       {.hidden_size = 44, .num_heads = 6, .num_kv_heads = 3, .head_dim = 20, .rotary_dim = 10, .bias = true},
       Workload::batch({{1, 20}, {9, 0}, {4, 17}})},
      {"without norms",
       {.hidden_size = 40, .num_heads = 4, .num_kv_heads = 1, .head_dim = 16, .rotary_dim = 8, .qk_norm = false},
       Workload::batch({{1, 20}, {7, 0}})},
  };
}

namespace {
using ComposedGlm4MoeAttention = ComposedAttentionBlock<Glm4MoeAttention, RMSNorm, QkNorm::kEachHead>;
FK_COMPOSITION(Glm4MoeAttention, ComposedGlm4MoeAttention);
}  // namespace
}  // namespace fk
