#include "ops/l4/qwen3_for_causal_lm.h"

#include "ops/l1/rms_norm.h"
#include "ops/l3/qwen3_decoder_layer.h"
#include "ops/register.h"

namespace fk {

std::vector<Case<Qwen3ForCausalLM>> Qwen3ForCausalLM::cases() {
  Init c{{.vocab_size = 331,
          .hidden_size = 72,
          .intermediate_size = 200,
          .num_hidden_layers = 3,
          .num_attention_heads = 6,
          .num_key_value_heads = 3,
          .head_dim = 24,
          .max_position_embeddings = 512},
         {}};
  std::vector<Case<Qwen3ForCausalLM>> cases;
  for (const Workload& w : causal_lm_workloads())
    cases.push_back({std::to_string(w.num_sequences()) + " sequences", c, w});
  c.head_dim = 128;
  c.num_hidden_layers = 2;
  c.num_attention_heads = 2;
  c.num_key_value_heads = 1;
  for (const Workload& w : one_token_workloads())
    cases.push_back({std::to_string(w.sequences[0].context_len + 1) + " keys", c, w});
  return cases;
}

DecoderLayerInit Qwen3ForCausalLM::layer(const Init& init, int64_t i) {
  DecoderLayerInit layer = common_layer(init);
  layer.attention.bias = layer.attention.bias_o_proj = init.attention_bias;
  layer.attention.sliding_window = init.window_of(i);
  return layer;
}

namespace {
using ComposedQwen3ForCausalLM = ComposedCausalLM<Qwen3ForCausalLM, Qwen3DecoderLayer, RMSNorm>;
FK_COMPOSITION(Qwen3ForCausalLM, ComposedQwen3ForCausalLM);
}  // namespace
}  // namespace fk
