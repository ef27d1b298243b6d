#include "ops/l4/glm4_moe_for_causal_lm.h"

#include "ops/l1/rms_norm.h"
#include "ops/register.h"

namespace fk {

std::vector<Case<Glm4MoeForCausalLM>> Glm4MoeForCausalLM::cases() {
  // All experts: with fewer, rounding in bf16 could change the choice, and then the reference computes something else.
  Init c{{.vocab_size = 305,
          .hidden_size = 64,
          .intermediate_size = 100,
          .num_hidden_layers = 3,
          .num_attention_heads = 4,
          .num_key_value_heads = 2,
          .head_dim = 16,
          .max_position_embeddings = 512},
         {}};
  c.rotary_dim = 8;
  c.attention_bias = c.use_qk_norm = true;
  c.n_routed_experts = c.num_experts_per_tok = 4;
  c.moe_intermediate_size = 40;
  c.n_group = c.topk_group = 2;
  c.routed_scaling_factor = 1.5;
  std::vector<Case<Glm4MoeForCausalLM>> cases;
  for (const Workload& w : causal_lm_workloads())
    cases.push_back({std::to_string(w.num_sequences()) + " sequences", c, w});
  return cases;
}

Glm4MoeDecoderLayer::Init Glm4MoeForCausalLM::layer(const Init& init, int64_t i) {
  Glm4MoeDecoderLayer::Init layer{common_layer(init), {}};
  layer.attention.rotary_dim = init.rotary_dim;
  layer.attention.bias = init.attention_bias;
  layer.attention.qk_norm = init.use_qk_norm;
  layer.moe = init.of_layer(init, i);
  return layer;
}

namespace {
using ComposedGlm4MoeForCausalLM = ComposedCausalLM<Glm4MoeForCausalLM, Glm4MoeDecoderLayer, RMSNorm>;
FK_COMPOSITION(Glm4MoeForCausalLM, ComposedGlm4MoeForCausalLM);
}  // namespace
}  // namespace fk
