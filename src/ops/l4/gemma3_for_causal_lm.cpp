#include "ops/l4/gemma3_for_causal_lm.h"

#include <cmath>

#include "ops/l1/gemma_rms_norm.h"
#include "ops/l3/gemma3_decoder_layer.h"
#include "ops/register.h"

namespace fk {

std::vector<Case<Gemma3ForCausalLM>> Gemma3ForCausalLM::cases() {
  Init c{{.vocab_size = 257,
          .hidden_size = 48,
          .intermediate_size = 96,
          .num_hidden_layers = 6,
          .num_attention_heads = 2,
          .num_key_value_heads = 1,
          .head_dim = 32,
          .max_position_embeddings = 512},
         {.sliding_window = 8, .layer_is_sliding = {1, 1, 1, 1, 1, 0}}};
  c.query_pre_attn_scalar = 32;
  std::vector<Case<Gemma3ForCausalLM>> cases;
  for (const Workload& w : causal_lm_workloads())
    cases.push_back({std::to_string(w.num_sequences()) + " sequences", c, w});
  c.head_dim = 256;
  c.num_hidden_layers = 2;
  c.layer_is_sliding = {1, 0};
  for (const Workload& w : one_token_workloads())
    cases.push_back({std::to_string(w.sequences[0].context_len + 1) + " keys", c, w});
  return cases;
}

DecoderLayerInit Gemma3ForCausalLM::layer(const Init& init, int64_t i) {
  DecoderLayerInit layer = common_layer(init);
  AttentionBlockInit& a = layer.attention;
  a.bias = a.bias_o_proj = init.attention_bias;
  double scalar = init.query_pre_attn_scalar;
  a.scale = 1 / std::sqrt(scalar > 0 ? scalar : static_cast<double>(a.head_dim));
  a.sliding_window = init.window_of(i);
  // Sliding layers have their own RoPE base and no RoPE scaling.
  if (a.sliding_window > 0) {
    a.rope_theta = init.rope_local_base_freq;
    a.rope_scaling = {};
  }
  return layer;
}

// Checkpoints were trained with the square root rounded to the weights' dtype.
double Gemma3ForCausalLM::embedding_scale(const Init& c) {
  double rounded = 0;
  store_element(&rounded, c.dtype, std::sqrt(static_cast<double>(c.hidden_size)));
  return load_element(&rounded, c.dtype);
}

namespace {
using ComposedGemma3ForCausalLM = ComposedCausalLM<Gemma3ForCausalLM, Gemma3DecoderLayer, GemmaRMSNorm>;
FK_COMPOSITION(Gemma3ForCausalLM, ComposedGemma3ForCausalLM);
}  // namespace
}  // namespace fk
