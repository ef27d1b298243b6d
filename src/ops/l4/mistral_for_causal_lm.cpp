#include "ops/l4/mistral_for_causal_lm.h"

#include "ops/l1/rms_norm.h"
#include "ops/l3/llama_decoder_layer.h"
#include "ops/register.h"

namespace fk {

std::vector<Case<MistralForCausalLM>> MistralForCausalLM::cases() {
  Init c{{.vocab_size = 300,
          .hidden_size = 64,
          .intermediate_size = 144,
          .num_hidden_layers = 2,
          .num_attention_heads = 8,
          .num_key_value_heads = 2,
          .head_dim = 8,
          .max_position_embeddings = 512}};
  c.sliding_window = 6;
  std::vector<Case<MistralForCausalLM>> cases;
  for (const Workload& w : causal_lm_workloads())
    cases.push_back({std::to_string(w.num_sequences()) + " sequences", c, w});
  c.head_dim = 64;
  for (const Workload& w : one_token_workloads())
    cases.push_back({std::to_string(w.sequences[0].context_len + 1) + " keys", c, w});
  return cases;
}

DecoderLayerInit MistralForCausalLM::layer(const Init& init, int64_t) {
  DecoderLayerInit layer = common_layer(init);
  layer.attention.sliding_window = init.sliding_window;
  return layer;
}

namespace {
using ComposedMistralForCausalLM = ComposedCausalLM<MistralForCausalLM, LlamaDecoderLayer, RMSNorm>;
FK_COMPOSITION(MistralForCausalLM, ComposedMistralForCausalLM);
}  // namespace
}  // namespace fk
