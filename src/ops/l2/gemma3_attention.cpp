#include "ops/l2/gemma3_attention.h"

#include "ops/l1/gemma_rms_norm.h"
#include "ops/register.h"

namespace fk {

std::vector<Case<Gemma3Attention>> Gemma3Attention::cases() {
  return {
      {"sliding",
       {.hidden_size = 48, .num_heads = 2, .num_kv_heads = 1, .head_dim = 32, .scale = 0.1768, .sliding_window = 8},
       Workload::batch({{1, 20}, {19, 0}})},
      {"global, linear rope",
       {.hidden_size = 48,
        .num_heads = 4,
        .num_kv_heads = 2,
        .head_dim = 16,
        .rope_theta = 1e6,
        .rope_scaling = {.type = "linear", .factor = 8},
        .scale = 0.25},
       Workload::batch({{1, 33}, {6, 2}})},
  };
}

namespace {
using ComposedGemma3Attention = ComposedAttentionBlock<Gemma3Attention, GemmaRMSNorm, QkNorm::kEachHead>;
FK_COMPOSITION(Gemma3Attention, ComposedGemma3Attention);
}  // namespace
}  // namespace fk
