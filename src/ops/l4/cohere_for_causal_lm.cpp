#include "ops/l4/cohere_for_causal_lm.h"

#include "ops/l1/layer_norm.h"
#include "ops/register.h"

namespace fk {

std::vector<Case<CohereForCausalLM>> CohereForCausalLM::cases() {
  Init c{{.vocab_size = 299,
          .hidden_size = 48,
          .intermediate_size = 131,
          .num_hidden_layers = 2,
          .num_attention_heads = 4,
          .num_key_value_heads = 2,
          .head_dim = 12,
          .max_position_embeddings = 512}};
  c.use_qk_norm = true;
  c.logit_scale = 0.0625;
  std::vector<Case<CohereForCausalLM>> cases;
  for (const Workload& w : causal_lm_workloads())
    cases.push_back({std::to_string(w.num_sequences()) + " sequences", c, w});
  return cases;
}

CohereDecoderLayer::Init CohereForCausalLM::layer(const Init& init, int64_t) {
  CohereDecoderLayer::Init layer{common_layer(init), init.use_qk_norm};
  layer.attention.is_neox_style = false;
  layer.attention.bias = layer.attention.bias_o_proj = init.attention_bias;
  return layer;
}

namespace {
using ComposedCohereForCausalLM = ComposedCausalLM<CohereForCausalLM, CohereDecoderLayer, LayerNorm>;
FK_COMPOSITION(CohereForCausalLM, ComposedCohereForCausalLM);
}  // namespace
}  // namespace fk
