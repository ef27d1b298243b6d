#include "ops/l4/olmo2_for_causal_lm.h"

#include "ops/l1/rms_norm.h"
#include "ops/l3/olmo2_decoder_layer.h"
#include "ops/register.h"

namespace fk {

std::vector<Case<Olmo2ForCausalLM>> Olmo2ForCausalLM::cases() {
  Init c{{.vocab_size = 283,
          .hidden_size = 52,
          .intermediate_size = 140,
          .num_hidden_layers = 2,
          .num_attention_heads = 6,
          .num_key_value_heads = 2,
          .head_dim = 10,
          .max_position_embeddings = 512}};
  std::vector<Case<Olmo2ForCausalLM>> cases;
  for (const Workload& w : causal_lm_workloads())
    cases.push_back({std::to_string(w.num_sequences()) + " sequences", c, w});
  return cases;
}

DecoderLayerInit Olmo2ForCausalLM::layer(const Init& init, int64_t) {
  DecoderLayerInit layer = common_layer(init);
  layer.attention.bias = layer.attention.bias_o_proj = init.attention_bias;
  return layer;
}

namespace {
using ComposedOlmo2ForCausalLM = ComposedCausalLM<Olmo2ForCausalLM, Olmo2DecoderLayer, RMSNorm>;
FK_COMPOSITION(Olmo2ForCausalLM, ComposedOlmo2ForCausalLM);
}  // namespace
}  // namespace fk
