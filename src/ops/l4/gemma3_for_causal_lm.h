// Gemma3ForCausalLM: the text part of Gemma 3.
#pragma once

#include "ops/l4/causal_lm.h"

namespace fk {

struct Gemma3ForCausalLMInit : DecoderModelInit, SlidingLayers {
  double rope_local_base_freq = 10000;  // theta of the sliding layers
  double query_pre_attn_scalar = 0;     // attention scale is its inverse square root; 0: head_dim
  bool attention_bias = false;          // of all four projections

  template <class Visitor>
  void visit(Visitor&& v) {
    DecoderModelInit::visit(v);
    SlidingLayers::visit(v);
    v("rope_local_base_freq", rope_local_base_freq);
    v("query_pre_attn_scalar", query_pre_attn_scalar);
    v("attention_bias", attention_bias);
  }
};

class Gemma3ForCausalLM : public CausalLM<Gemma3ForCausalLM, Gemma3ForCausalLMInit> {
 public:
  static constexpr std::string_view kName = "gemma3_for_causal_lm";
  static constexpr std::string_view kClass = "Gemma3ForCausalLM";

  using CausalLM::CausalLM;

  static DecoderLayerInit layer(const Init& init, int64_t i);
  // What token embeddings are multiplied by.
  static double embedding_scale(const Init& init);

  static std::vector<Case<Gemma3ForCausalLM>> cases();
};

}  // namespace fk
