#include "ops/l4/granite_for_causal_lm.h"

#include "ops/l1/rms_norm.h"
#include "ops/register.h"

namespace fk {

std::vector<Case<GraniteForCausalLM>> GraniteForCausalLM::cases() {
  Init c{{.vocab_size = 319,
          .hidden_size = 64,
          .intermediate_size = 160,
          .num_hidden_layers = 2,
          .num_attention_heads = 4,
          .num_key_value_heads = 2,
          .head_dim = 16,
          .max_position_embeddings = 512}};
  c.embedding_multiplier = 12;
  c.attention_multiplier = 0.0625;
  c.residual_multiplier = 0.22;
  c.logits_scaling = 8;
  std::vector<Case<GraniteForCausalLM>> cases;
  for (const Workload& w : causal_lm_workloads())
    cases.push_back({std::to_string(w.num_sequences()) + " sequences", c, w});
  return cases;
}

GraniteDecoderLayer::Init GraniteForCausalLM::layer(const Init& init, int64_t) {
  GraniteDecoderLayer::Init layer{common_layer(init), init.residual_multiplier};
  layer.attention.bias = layer.attention.bias_o_proj = init.attention_bias;
  layer.attention.scale = init.attention_multiplier;
  layer.mlp.bias = init.mlp_bias;
  return layer;
}

namespace {
using ComposedGraniteForCausalLM = ComposedCausalLM<GraniteForCausalLM, GraniteDecoderLayer, RMSNorm>;
FK_COMPOSITION(GraniteForCausalLM, ComposedGraniteForCausalLM);
}  // namespace
}  // namespace fk
