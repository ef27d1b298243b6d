#include "ops/l4/llama4_for_causal_lm.h"

#include "ops/l1/rms_norm.h"
#include "ops/register.h"

namespace fk {

std::vector<Case<Llama4ForCausalLM>> Llama4ForCausalLM::cases() {
  // One expert: with more, rounding in bf16 could change the choice, and then the reference computes something else.
  Init c{{.vocab_size = 305,
          .hidden_size = 64,
          .intermediate_size = 40,
          .num_hidden_layers = 2,
          .num_attention_heads = 4,
          .num_key_value_heads = 2,
          .head_dim = 16,
          .max_position_embeddings = 512}};
  c.intermediate_size_mlp = 100;
  c.num_local_experts = 1;
  c.layer_has_experts = {0, 1};
  c.layer_has_rope = c.layer_is_chunked = {1, 0};
  c.attention_chunk_size = 8;
  c.floor_scale = 4;
  std::vector<Case<Llama4ForCausalLM>> cases;
  for (const Workload& w : causal_lm_workloads())
    cases.push_back({std::to_string(w.num_sequences()) + " sequences", c, w});
  return cases;
}

Llama4DecoderLayerInit Llama4ForCausalLM::layer(const Init& init, int64_t i) {
  auto is_set = [&](const std::vector<uint8_t>& flags) {
    return static_cast<size_t>(i) < flags.size() && flags[static_cast<size_t>(i)] != 0;
  };
  DecoderLayerInit common = common_layer(init);
  Llama4DecoderLayerInit layer{.attention = {common.attention}, .mlp = common.mlp, .rms_norm_eps = init.rms_norm_eps};
  layer.mlp.intermediate_size = init.intermediate_size_mlp;
  Llama4AttentionInit& a = layer.attention;
  a.is_neox_style = false;
  a.bias = a.bias_o_proj = init.attention_bias;
  a.qk_norm = init.use_qk_norm;
  a.use_rope = is_set(init.layer_has_rope);
  a.attention_chunk_size = is_set(init.layer_is_chunked) ? init.attention_chunk_size : 0;
  a.attn_temperature_tuning = init.attn_temperature_tuning;
  a.attn_scale = init.attn_scale;
  a.floor_scale = init.floor_scale;
  if (is_set(init.layer_has_experts))
    layer.moe = {.hidden_size = init.hidden_size,
                 .num_experts = init.num_local_experts,
                 .top_k = 1,
                 .intermediate_size = init.intermediate_size,
                 .shared_expert_intermediate_size = init.intermediate_size,
                 .tp_size = init.tp_size,
                 .tp_rank = init.tp_rank,
                 .reduce_results = init.tp_reduce,
                 .dtype = init.dtype};
  return layer;
}

namespace {
using ComposedLlama4ForCausalLM = ComposedCausalLM<Llama4ForCausalLM, Llama4DecoderLayer, RMSNorm>;
FK_COMPOSITION(Llama4ForCausalLM, ComposedLlama4ForCausalLM);
}  // namespace
}  // namespace fk
