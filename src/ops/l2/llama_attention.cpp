#include "ops/l2/llama_attention.h"

#include "ops/l1/rms_norm.h"
#include "ops/register.h"

namespace fk {

std::vector<Case<LlamaAttention>> LlamaAttention::cases() {
  // So many that their keys are divided among blocks in equal shares on a GPU.
  const std::vector<Sequence> decoding(33, {1, 20});
  std::vector<Sequence> and_a_prompt = decoding;
  and_a_prompt.push_back({20, 0});
  return {
      {"mixed",
       {.hidden_size = 64, .num_heads = 4, .num_kv_heads = 2, .head_dim = 16},
       Workload::batch({{1, 20}, {9, 0}, {4, 17}})},
      {"bias, window",
       {.hidden_size = 40,
        .num_heads = 4,
        .num_kv_heads = 1,
        .head_dim = 10,
        .bias = true,
        .bias_o_proj = true,
        .sliding_window = 5},
       Workload::batch({{1, 20}, {18, 0}})},
      {"bias of queries, keys and values; partial rotation",
       {.hidden_size = 36, .num_heads = 3, .num_kv_heads = 1, .head_dim = 12, .rotary_dim = 8, .bias = true},
       Workload::batch({{1, 20}, {7, 0}})},
      {"interleaved partial rotation",
       {.hidden_size = 32, .num_heads = 2, .num_kv_heads = 2, .head_dim = 16, .rotary_dim = 8, .is_neox_style = false},
       Workload::batch({{1, 20}, {7, 0}})},
      {"llama3 rope",
       {.hidden_size = 32,
        .num_heads = 2,
        .num_kv_heads = 2,
        .head_dim = 16,
        .rope_theta = 500000,
        .rope_scaling = {.type = "llama3", .factor = 8, .original_max_position_embeddings = 32}},
       Workload::batch({{3, 90}})},
      {"one of four ranks, kv heads shared",
       {.hidden_size = 64, .num_heads = 8, .num_kv_heads = 2, .head_dim = 16, .tp_size = 4, .reduce_results = false},
       Workload::batch({{1, 20}, {9, 0}})},
      {"quantised",
       {.hidden_size = 64, .num_heads = 4, .num_kv_heads = 2, .head_dim = 16, .weight_format = "q8_0;o_proj=q4_0"},
       Workload::batch({{1, 20}, {9, 0}})},
      {"many decoding",
       {.hidden_size = 64, .num_heads = 2, .num_kv_heads = 1, .head_dim = 64},
       Workload::batch(decoding)},
      {"many decoding beside a prompt",
       {.hidden_size = 64, .num_heads = 2, .num_kv_heads = 1, .head_dim = 64},
       Workload::batch(and_a_prompt)},
  };
}

namespace {
using ComposedLlamaAttention = ComposedAttentionBlock<LlamaAttention, RMSNorm, QkNorm::kNone>;
FK_COMPOSITION(LlamaAttention, ComposedLlamaAttention);
}  // namespace
}  // namespace fk
