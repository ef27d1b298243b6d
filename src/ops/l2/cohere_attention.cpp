#include "ops/l2/cohere_attention.h"

#include "ops/l1/layer_norm.h"
#include "ops/register.h"

namespace fk {

std::vector<Case<CohereAttention>> CohereAttention::cases() {
  return {
      {"mixed",
       {.hidden_size = 48, .num_heads = 4, .num_kv_heads = 2, .head_dim = 12, .is_neox_style = false},
       Workload::batch({{1, 20}, {9, 0}, {4, 17}})},
      {"one of two ranks",
       {.hidden_size = 40,
        .num_heads = 4,
        .num_kv_heads = 2,
        .head_dim = 10,
        .is_neox_style = false,
        .tp_size = 2,
        .reduce_results = false},
       Workload::batch({{5, 3}})},
  };
}

namespace {
using ComposedCohereAttention = ComposedAttentionBlock<CohereAttention, LayerNorm, QkNorm::kEachHead>;
FK_COMPOSITION(CohereAttention, ComposedCohereAttention);
}  // namespace
}  // namespace fk
