#include "ops/l4/qwen3_next_for_causal_lm.h"

#include "ops/l1/gemma_rms_norm.h"
#include "ops/register.h"

namespace fk {

Qwen3NextDecoderLayerInit Qwen3NextForCausalLM::layer(const Init& c, int64_t i) {
  Qwen3NextDecoderLayerInit layer{sparse_layer(c, c, i), {}};
  layer.moe.shared_expert_intermediate_size = layer.has_experts() ? c.shared_expert_intermediate_size : 0;
  layer.attention.bias = layer.attention.bias_o_proj = c.attention_bias;
  layer.attention.rotary_dim = c.rotary_dim;
  if (static_cast<size_t>(i) < c.layer_is_linear.size() && c.layer_is_linear[static_cast<size_t>(i)] != 0)
    layer.linear = {.hidden_size = c.hidden_size,
                    .num_k_heads = c.linear_num_key_heads,
                    .num_v_heads = c.linear_num_value_heads,
                    .head_k_dim = c.linear_key_head_dim,
                    .head_v_dim = c.linear_value_head_dim,
                    .conv_kernel_size = c.linear_conv_kernel_dim,
                    .norm_eps = c.rms_norm_eps,
                    .dtype = c.dtype};
  return layer;
}

Tolerance Qwen3NextForCausalLM::tolerance(const Init& init, DType dtype) {
  Tolerance t = causal_lm_tolerance(init, dtype);
  return {t.relative, 2 * t.of_scale};  // as of a layer
}

std::vector<Case<Qwen3NextForCausalLM>> Qwen3NextForCausalLM::cases() {
  // All experts, as in Qwen2MoeForCausalLM.
  Init c{{.vocab_size = 301,
          .hidden_size = 56,
          .intermediate_size = 90,
          .num_hidden_layers = 2,
          .num_attention_heads = 4,
          .num_key_value_heads = 2,
          .head_dim = 16,
          .max_position_embeddings = 512,
          .rms_norm_eps = 1e-2},
         {.num_experts = 3, .num_experts_per_tok = 3, .moe_intermediate_size = 36}};
  c.shared_expert_intermediate_size = 44;
  c.rotary_dim = 8;
  c.layer_is_linear = {1, 0};
  c.linear_key_head_dim = 12;
  c.linear_value_head_dim = 20;
  c.linear_num_key_heads = 2;
  c.linear_num_value_heads = 4;
  std::vector<Case<Qwen3NextForCausalLM>> cases;
  for (const Workload& w : causal_lm_workloads())
    cases.push_back({std::to_string(w.num_sequences()) + " sequences", c, w});
  return cases;
}

namespace {
using ComposedQwen3NextForCausalLM = ComposedCausalLM<Qwen3NextForCausalLM, Qwen3NextDecoderLayer, GemmaRMSNorm>;
FK_COMPOSITION(Qwen3NextForCausalLM, ComposedQwen3NextForCausalLM);
}  // namespace
}  // namespace fk
