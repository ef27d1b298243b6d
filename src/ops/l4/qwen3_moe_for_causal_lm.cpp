#include "ops/l4/qwen3_moe_for_causal_lm.h"

#include "ops/l1/rms_norm.h"
#include "ops/l3/qwen3_moe_decoder_layer.h"
#include "ops/register.h"

namespace fk {

std::vector<Case<Qwen3MoeForCausalLM>> Qwen3MoeForCausalLM::cases() {
  // All experts: with fewer, rounding in bf16 could change the choice, and then the reference computes something else.
  Init c{{.vocab_size = 331,
          .hidden_size = 72,
          .intermediate_size = 100,
          .num_hidden_layers = 3,
          .num_attention_heads = 6,
          .num_key_value_heads = 3,
          .head_dim = 24,
          .max_position_embeddings = 512},
         {.num_experts = 4,
          .num_experts_per_tok = 4,
          .moe_intermediate_size = 40,
          .norm_topk_prob = true,
          .mlp_only_layers = {1}}};
  std::vector<Case<Qwen3MoeForCausalLM>> cases;
  for (const Workload& w : causal_lm_workloads())
    cases.push_back({std::to_string(w.num_sequences()) + " sequences", c, w});
  c.head_dim = 128;
  c.num_hidden_layers = 2;
  c.num_attention_heads = 2;
  c.num_key_value_heads = 1;
  c.mlp_only_layers = {};
  for (const Workload& w : one_token_workloads())
    cases.push_back({std::to_string(w.sequences[0].context_len + 1) + " keys", c, w});
  c.num_experts = 3;
  c.num_experts_per_tok = 3;
  c.moe_intermediate_size = 264;
  c.norm_topk_prob = false;
  cases.push_back({"one token, larger experts", c, Workload::batch({{1, 9}})});
  c.num_experts = 37;
  c.moe_intermediate_size = 40;
  c.norm_topk_prob = true;
  cases.push_back({"one token, few of many experts", c, Workload::batch({{1, 9}})});
  return cases;
}

SparseDecoderLayerInit Qwen3MoeForCausalLM::layer(const Init& init, int64_t i) {
  SparseDecoderLayerInit layer = sparse_layer(init, init, i);
  layer.attention.bias = layer.attention.bias_o_proj = init.attention_bias;
  layer.attention.sliding_window = init.sliding_window;
  return layer;
}

namespace {
using ComposedQwen3MoeForCausalLM = ComposedCausalLM<Qwen3MoeForCausalLM, Qwen3MoeDecoderLayer, RMSNorm>;
FK_COMPOSITION(Qwen3MoeForCausalLM, ComposedQwen3MoeForCausalLM);
}  // namespace
}  // namespace fk
