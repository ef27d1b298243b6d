#include "ops/l4/deepseek_v3_for_causal_lm.h"

#include "ops/l1/rms_norm.h"
#include "ops/register.h"

namespace fk {

std::vector<Case<DeepseekV3ForCausalLM>> DeepseekV3ForCausalLM::cases() {
  // All experts: with fewer, rounding in bf16 could change the choice, and then the reference computes something else.
  Init c{{.vocab_size = 305,
          .hidden_size = 64,
          .intermediate_size = 100,
          .num_hidden_layers = 3,
          .num_attention_heads = 4,
          .num_key_value_heads = 4,
          .head_dim = 8,
          .max_position_embeddings = 512,
          .is_neox_style = false},
         {},
         {}};
  c.q_lora_rank = 24;
  c.kv_lora_rank = 16;
  c.qk_nope_head_dim = 16;
  c.qk_rope_head_dim = 8;
  c.v_head_dim = 16;
  c.n_routed_experts = c.num_experts_per_tok = 4;
  c.moe_intermediate_size = 40;
  c.n_group = c.topk_group = 2;
  c.routed_scaling_factor = 1.5;
  std::vector<Case<DeepseekV3ForCausalLM>> cases;
  for (const Workload& w : causal_lm_workloads())
    cases.push_back({std::to_string(w.num_sequences()) + " sequences", c, w});
  return cases;
}

DeepseekV2DecoderLayer::Init DeepseekV3ForCausalLM::layer(const Init& init, int64_t i) {
  return {.attention = init.block(init),
          .mlp = common_layer(init).mlp,
          .moe = init.of_layer(init, i),
          .rms_norm_eps = init.rms_norm_eps};
}

namespace {
using ComposedDeepseekV3ForCausalLM = ComposedCausalLM<DeepseekV3ForCausalLM, DeepseekV2DecoderLayer, RMSNorm>;
FK_COMPOSITION(DeepseekV3ForCausalLM, ComposedDeepseekV3ForCausalLM);
}  // namespace
}  // namespace fk
