#include "ops/l4/llama_for_causal_lm.h"

#include "ops/l1/rms_norm.h"
#include "ops/l3/llama_decoder_layer.h"
#include "ops/register.h"

namespace fk {

std::vector<Case<LlamaForCausalLM>> LlamaForCausalLM::cases() {
  Init c{{.vocab_size = 320,
          .hidden_size = 64,
          .intermediate_size = 176,
          .num_hidden_layers = 2,
          .num_attention_heads = 4,
          .num_key_value_heads = 2,
          .head_dim = 16,
          .max_position_embeddings = 512}};
  std::vector<Case<LlamaForCausalLM>> cases;
  for (const Workload& w : causal_lm_workloads())
    cases.push_back({std::to_string(w.num_sequences()) + " sequences", c, w});
  Init kept = c;
  kept.aux_hidden_state_layers = {0, 2, 1};
  cases.push_back({"hidden states are kept", kept, causal_lm_workloads()[2]});
  c.head_dim = 64;
  for (const Workload& w : one_token_workloads())
    cases.push_back({std::to_string(w.sequences[0].context_len + 1) + " keys", c, w});
  for (const char* format : {"fp8_channel", "int4_packed_asym"}) {
    c.weight_format = std::string(format) + ";embed_tokens=none;lm_head=none";
    cases.push_back({std::string(format) + ", one token", c, one_token_workloads()[1]});
    c.hidden_size = 1280;  // more than a step of the kernels that compute one token
  }
  return cases;
}

DecoderLayerInit LlamaForCausalLM::layer(const Init& init, int64_t) {
  DecoderLayerInit layer = common_layer(init);
  layer.attention.bias = layer.attention.bias_o_proj = init.attention_bias;
  layer.mlp.bias = init.mlp_bias;
  return layer;
}

namespace {
using ComposedLlamaForCausalLM = ComposedCausalLM<LlamaForCausalLM, LlamaDecoderLayer, RMSNorm>;
FK_COMPOSITION(LlamaForCausalLM, ComposedLlamaForCausalLM);
}  // namespace
}  // namespace fk
