#include "ops/l2/gpt_oss_attention.h"

#include "ops/l1/rms_norm.h"
#include "ops/register.h"

namespace fk {

std::vector<Case<GptOssAttention>> GptOssAttention::cases() {
  return {
      {"yarn",
       {.hidden_size = 40,
        .num_heads = 4,
        .num_kv_heads = 1,
        .head_dim = 16,
        .rope_theta = 150000,
        .rope_scaling = {.type = "yarn",
                         .factor = 8,
                         .original_max_position_embeddings = 16,
                         .truncate = false,
                         .attention_factor = 1.2079441541679836}},
       Workload::batch({{1, 60}, {7, 0}})},
      {"window, bias",
       {.hidden_size = 44,
        .num_heads = 6,
        .num_kv_heads = 2,
        .head_dim = 20,
        .bias = true,
        .bias_o_proj = true,
        .sliding_window = 7},
       Workload::batch({{1, 20}, {19, 0}, {4, 17}})},
  };
}

namespace {
using ComposedGptOssAttention = ComposedAttentionBlock<GptOssAttention, RMSNorm, QkNorm::kNone>;
FK_COMPOSITION(GptOssAttention, ComposedGptOssAttention);
}  // namespace
}  // namespace fk
