#include "ops/l3/qwen2_moe_decoder_layer.h"

#include "ops/l2/llama_attention.h"
#include "ops/l2/qwen2_moe_sparse_moe_block.h"
#include "ops/register.h"

namespace fk {

std::vector<Case<Qwen2MoeDecoderLayer>> Qwen2MoeDecoderLayer::cases() {
  // All experts: with fewer, rounding in bf16 could change the choice, and then the reference computes something else.
  Init c{{.attention =
              {.hidden_size = 48, .num_heads = 4, .num_kv_heads = 2, .head_dim = 12, .max_position = 512, .bias = true},
          .mlp = {.hidden_size = 48, .intermediate_size = 100}},
         {.hidden_size = 48,
          .num_experts = 3,
          .top_k = 3,
          .intermediate_size = 40,
          .renormalize = false,
          .shared_expert_intermediate_size = 52}};
  Init dense = c;
  dense.moe.num_experts = 0;
  return {
      {"first layer", c, Workload::batch({{1, 20}, {9, 0}})},
      {"later layer, dense", dense, Workload::batch({{1, 33}, {4, 17}}, true)},
  };
}

namespace {
using ComposedQwen2MoeDecoderLayer =
    ComposedSparseDecoderLayer<Qwen2MoeDecoderLayer, LlamaAttention, Qwen2MoeSparseMoeBlock>;
FK_COMPOSITION(Qwen2MoeDecoderLayer, ComposedQwen2MoeDecoderLayer);
}  // namespace
}  // namespace fk
