#include "ops/l3/deepseek_v32_decoder_layer.h"

#include "ops/register.h"

namespace fk {

std::vector<Case<DeepseekV32DecoderLayer>> DeepseekV32DecoderLayer::cases() {
  // All experts and all keys: with fewer, rounding in bf16 could change the choice, and then the reference computes
  // something else.
  Init c{.attention = {{.hidden_size = 44,
                        .num_heads = 3,
                        .qk_nope_head_dim = 20,
                        .qk_rope_head_dim = 6,
                        .v_head_dim = 27,
                        .q_lora_rank = 31,
                        .kv_lora_rank = 33,
                        .max_position = 512},
                       16,
                       18,
                       40},
         .mlp = {.hidden_size = 44, .intermediate_size = 96},
         .moe = {{.hidden_size = 44,
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
using ComposedDeepseekV32DecoderLayer = ComposedMLADecoderLayer<DeepseekV32DecoderLayer>;
FK_COMPOSITION(DeepseekV32DecoderLayer, ComposedDeepseekV32DecoderLayer);
}  // namespace
}  // namespace fk
