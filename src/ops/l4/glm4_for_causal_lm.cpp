#include "ops/l4/glm4_for_causal_lm.h"

#include "ops/l1/rms_norm.h"
#include "ops/l3/glm4_decoder_layer.h"
#include "ops/register.h"

namespace fk {

std::vector<Case<Glm4ForCausalLM>> Glm4ForCausalLM::cases() {
  Init c{{.vocab_size = 305,
          .hidden_size = 64,
          .intermediate_size = 136,
          .num_hidden_layers = 2,
          .num_attention_heads = 4,
          .num_key_value_heads = 2,
          .head_dim = 16,
          .max_position_embeddings = 512}};
  c.rotary_dim = 8;
  c.attention_bias = true;
  std::vector<Case<Glm4ForCausalLM>> cases;
  for (const Workload& w : causal_lm_workloads())
    cases.push_back({std::to_string(w.num_sequences()) + " sequences", c, w});
  return cases;
}

DecoderLayerInit Glm4ForCausalLM::layer(const Init& init, int64_t) {
  DecoderLayerInit layer = common_layer(init);
  layer.attention.rotary_dim = init.rotary_dim;
  layer.attention.is_neox_style = false;
  layer.attention.bias = init.attention_bias;
  return layer;
}

namespace {
using ComposedGlm4ForCausalLM = ComposedCausalLM<Glm4ForCausalLM, Glm4DecoderLayer, RMSNorm>;
FK_COMPOSITION(Glm4ForCausalLM, ComposedGlm4ForCausalLM);
}  // namespace
}  // namespace fk
