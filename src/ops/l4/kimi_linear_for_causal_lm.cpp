#include "ops/l4/kimi_linear_for_causal_lm.h"

#include "ops/l1/rms_norm.h"
#include "ops/register.h"

namespace fk {

KimiDecoderLayerInit KimiLinearForCausalLM::layer(const Init& c, int64_t i) {
  KimiDecoderLayerInit layer{
      {.attention = c.block(c), .mlp = common_layer(c).mlp, .moe = c.of_layer(c, i), .rms_norm_eps = c.rms_norm_eps},
      {}};
  layer.attention.rotary = false;
  if (static_cast<size_t>(i) < c.layer_is_linear.size() && c.layer_is_linear[static_cast<size_t>(i)] != 0)
    layer.linear = {.hidden_size = c.hidden_size,
                    .num_heads = c.linear_num_heads,
                    .head_dim = c.linear_head_dim,
                    .conv_kernel_size = c.linear_conv_kernel_dim,
                    .rms_norm_eps = c.rms_norm_eps,
                    .dtype = c.dtype};
  return layer;
}

Tolerance KimiLinearForCausalLM::tolerance(const Init& init, DType dtype) {
  Tolerance t = causal_lm_tolerance(init, dtype);
  return {t.relative, 2 * t.of_scale};  // as of a layer
}

std::vector<Case<KimiLinearForCausalLM>> KimiLinearForCausalLM::cases() {
  // All experts: with fewer, rounding in bf16 could change the choice, and then the reference computes something else.
  Init c{{.vocab_size = 303,
          .hidden_size = 56,
          .intermediate_size = 90,
          .num_hidden_layers = 3,
          .num_attention_heads = 4,
          .num_key_value_heads = 4,
          .head_dim = 8,
          .max_position_embeddings = 512,
          .rms_norm_eps = 1e-2},
         {},
         {}};
  c.kv_lora_rank = 16;
  c.qk_nope_head_dim = 16;
  c.qk_rope_head_dim = 8;
  c.v_head_dim = 16;
  c.n_routed_experts = c.num_experts_per_tok = 4;
  c.moe_intermediate_size = 36;
  c.routed_scaling_factor = 1.5;
  c.layer_is_linear = {1, 0, 1};
  c.linear_num_heads = 3;
  c.linear_head_dim = 12;
  std::vector<Case<KimiLinearForCausalLM>> cases;
  for (const Workload& w : causal_lm_workloads())
    cases.push_back({std::to_string(w.num_sequences()) + " sequences", c, w});
  return cases;
}

namespace {
using ComposedKimiLinearForCausalLM = ComposedCausalLM<KimiLinearForCausalLM, KimiDecoderLayer, RMSNorm>;
FK_COMPOSITION(KimiLinearForCausalLM, ComposedKimiLinearForCausalLM);
}  // namespace
}  // namespace fk
