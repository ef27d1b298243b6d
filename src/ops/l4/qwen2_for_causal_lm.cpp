#include "ops/l4/qwen2_for_causal_lm.h"

#include "ops/l1/rms_norm.h"
#include "ops/l3/llama_decoder_layer.h"
#include "ops/register.h"

namespace fk {

std::vector<Case<Qwen2ForCausalLM>> Qwen2ForCausalLM::cases() {
  Init c{{.vocab_size = 301,
          .hidden_size = 56,
          .intermediate_size = 150,
          .num_hidden_layers = 2,
          .num_attention_heads = 7,
          .num_key_value_heads = 1,
          .head_dim = 8,
          .max_position_embeddings = 512},
         {.sliding_window = 8, .layer_is_sliding = {0, 1}}};
  std::vector<Case<Qwen2ForCausalLM>> cases;
  for (const Workload& w : causal_lm_workloads())
    cases.push_back({std::to_string(w.num_sequences()) + " sequences", c, w});
  return cases;
}

DecoderLayerInit Qwen2ForCausalLM::layer(const Init& init, int64_t i) {
  DecoderLayerInit layer = common_layer(init);
  layer.attention.bias = true;
  layer.attention.sliding_window = init.window_of(i);
  return layer;
}

namespace {
using ComposedQwen2ForCausalLM = ComposedCausalLM<Qwen2ForCausalLM, LlamaDecoderLayer, RMSNorm>;
FK_COMPOSITION(Qwen2ForCausalLM, ComposedQwen2ForCausalLM);
}  // namespace
}  // namespace fk
