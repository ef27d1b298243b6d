#include "ops/l3/qwen3_moe_decoder_layer.h"

#include "ops/l2/qwen3_attention.h"
#include "ops/l2/qwen3_moe_sparse_moe_block.h"
#include "ops/register.h"

namespace fk {

std::vector<Case<Qwen3MoeDecoderLayer>> Qwen3MoeDecoderLayer::cases() {
  // All experts: with fewer, rounding in bf16 could change the choice, and then the reference computes something else.
  Init c{{.attention = {.hidden_size = 44, .num_heads = 6, .num_kv_heads = 3, .head_dim = 20, .max_position = 512},
          .mlp = {.hidden_size = 44, .intermediate_size = 96}},
         {.hidden_size = 44, .num_experts = 5, .top_k = 5, .intermediate_size = 28}};
  Init dense = c;
  dense.moe.num_experts = 0;
  return {
      {"first layer", c, Workload::batch({{1, 20}, {9, 0}})},
      {"later layer", c, Workload::batch({{1, 33}, {4, 17}}, true)},
      {"dense", dense, Workload::batch({{1, 33}, {4, 17}}, true)},
  };
}

namespace {
using ComposedQwen3MoeDecoderLayer =
    ComposedSparseDecoderLayer<Qwen3MoeDecoderLayer, Qwen3Attention, Qwen3MoeSparseMoeBlock>;
FK_COMPOSITION(Qwen3MoeDecoderLayer, ComposedQwen3MoeDecoderLayer);
}  // namespace
}  // namespace fk
