#include "ops/l4/phi3_for_causal_lm.h"

#include "ops/l1/rms_norm.h"
#include "ops/l3/llama_decoder_layer.h"
#include "ops/register.h"

namespace fk {

std::vector<Case<Phi3ForCausalLM>> Phi3ForCausalLM::cases() {
  Init c{{.vocab_size = 313,
          .hidden_size = 48,
          .intermediate_size = 131,
          .num_hidden_layers = 2,
          .num_attention_heads = 6,
          .num_key_value_heads = 3,
          .head_dim = 16,
          .max_position_embeddings = 512}};
  c.rotary_dim = 12;
  c.sliding_window = 7;
  std::vector<Case<Phi3ForCausalLM>> cases;
  for (const Workload& w : causal_lm_workloads())
    cases.push_back({std::to_string(w.num_sequences()) + " sequences", c, w});
  return cases;
}

DecoderLayerInit Phi3ForCausalLM::layer(const Init& init, int64_t) {
  DecoderLayerInit layer = common_layer(init);
  layer.attention.rotary_dim = init.rotary_dim;
  layer.attention.sliding_window = init.sliding_window;
  return layer;
}

namespace {
using ComposedPhi3ForCausalLM = ComposedCausalLM<Phi3ForCausalLM, LlamaDecoderLayer, RMSNorm>;
FK_COMPOSITION(Phi3ForCausalLM, ComposedPhi3ForCausalLM);
}  // namespace
}  // namespace fk
