#include "ops/l4/bitnet_for_causal_lm.h"

#include "ops/l1/rms_norm.h"
#include "ops/l3/bitnet_decoder_layer.h"
#include "ops/register.h"

namespace fk {

std::vector<Case<BitNetForCausalLM>> BitNetForCausalLM::cases() {
  Init c{{.vocab_size = 293,
          .hidden_size = 60,
          .intermediate_size = 132,
          .num_hidden_layers = 2,
          .num_attention_heads = 6,
          .num_key_value_heads = 2,
          .head_dim = 10,
          .max_position_embeddings = 512}};
  std::vector<Case<BitNetForCausalLM>> cases;
  for (const Workload& w : causal_lm_workloads())
    cases.push_back({std::to_string(w.num_sequences()) + " sequences", c, w});
  c.weight_format = "ternary;embed_tokens=none;lm_head=none";
  cases.push_back({"ternary", c, causal_lm_workloads().front()});
  return cases;
}

DecoderLayerInit BitNetForCausalLM::layer(const Init& init, int64_t) {
  DecoderLayerInit layer = common_layer(init);
  layer.attention.bias = layer.attention.bias_o_proj = init.attention_bias;
  return layer;
}

namespace {
using ComposedBitNetForCausalLM = ComposedCausalLM<BitNetForCausalLM, BitNetDecoderLayer, RMSNorm>;
FK_COMPOSITION(BitNetForCausalLM, ComposedBitNetForCausalLM);
}  // namespace
}  // namespace fk
