// Llama4ForCausalLM: the language model of Llama 4: experts on all layers or on some, chunked attention, and layers
// without a rotary embedding.
#pragma once

#include "ops/l3/llama4_decoder_layer.h"
#include "ops/l4/causal_lm.h"

namespace fk {

struct Llama4ForCausalLMInit : DecoderModelInit {
  int64_t intermediate_size_mlp = 0;  // of layers without experts; intermediate_size is that of an expert
  int64_t num_local_experts = 0;
  std::vector<uint8_t> layer_has_experts = {};  // one per layer, as below
  std::vector<uint8_t> layer_has_rope = {};
  std::vector<uint8_t> layer_is_chunked = {};
  int64_t attention_chunk_size = 0;  // 0: none
  bool use_qk_norm = true;
  bool attn_temperature_tuning = true;
  double attn_scale = 0.1;
  int64_t floor_scale = 8192;
  bool attention_bias = false;  // of all four projections

  template <class Visitor>
  void visit(Visitor&& v) {
    DecoderModelInit::visit(v);
    v("intermediate_size_mlp", intermediate_size_mlp);
    v("num_local_experts", num_local_experts);
    v("layer_has_experts", layer_has_experts);
    v("layer_has_rope", layer_has_rope);
    v("layer_is_chunked", layer_is_chunked);
    v("attention_chunk_size", attention_chunk_size);
    v("use_qk_norm", use_qk_norm);
    v("attn_temperature_tuning", attn_temperature_tuning);
    v("attn_scale", attn_scale);
    v("floor_scale", floor_scale);
    v("attention_bias", attention_bias);
  }
};

class Llama4ForCausalLM : public CausalLM<Llama4ForCausalLM, Llama4ForCausalLMInit> {
 public:
  static constexpr std::string_view kName = "llama4_for_causal_lm";
  static constexpr std::string_view kClass = "Llama4ForCausalLM";

  using CausalLM::CausalLM;

  static Llama4DecoderLayerInit layer(const Init& init, int64_t i);
  static Cost layer_cost(const Init& init, int64_t i, const Workload& w) {
    return Llama4DecoderLayer::cost(layer(init, i), w);
  }
  static std::vector<Case<Llama4ForCausalLM>> cases();
};

}  // namespace fk
