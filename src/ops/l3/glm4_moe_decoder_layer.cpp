#include "ops/l3/glm4_moe_decoder_layer.h"

#include "ops/l2/glm4_moe.h"
#include "ops/l2/glm4_moe_attention.h"
#include "ops/register.h"

namespace fk {

std::vector<Case<Glm4MoeDecoderLayer>> Glm4MoeDecoderLayer::cases() {
  // All experts: with fewer, rounding in bf16 could change the choice, and then the reference computes something else.
  Init c{{.attention = {.hidden_size = 44,
                        .num_heads = 6,
                        .num_kv_heads = 3,
                        .head_dim = 20,
                        .max_position = 512,
                        .rotary_dim = 10},
          .mlp = {.hidden_size = 44, .intermediate_size = 96}},
         {{.hidden_size = 44,
           .num_experts = 4,
           .top_k = 4,
           .intermediate_size = 28,
           .shared_expert_intermediate_size = 30},
          2,
          2,
          1.7}};
  Init dense = c;
  dense.moe.num_experts = 0;
  return {
      {"first layer, dense", dense, Workload::batch({{1, 20}, {9, 0}})},
      {"later layer", c, Workload::batch({{1, 33}, {4, 17}}, true)},
  };
}

namespace {
using ComposedGlm4MoeDecoderLayer = ComposedSparseDecoderLayer<Glm4MoeDecoderLayer, Glm4MoeAttention, Glm4MoE>;
FK_COMPOSITION(Glm4MoeDecoderLayer, ComposedGlm4MoeDecoderLayer);
}  // namespace
}  // namespace fk
