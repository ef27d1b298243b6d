// Qwen3ForCausalLM: dense Qwen 3.
#pragma once

#include "ops/l4/causal_lm.h"

namespace fk {

struct Qwen3ForCausalLMInit : DecoderModelInit, SlidingLayers {
  bool attention_bias = false;  // of all four projections

  template <class Visitor>
  void visit(Visitor&& v) {
    DecoderModelInit::visit(v);
    SlidingLayers::visit(v);
    v("attention_bias", attention_bias);
  }
};

class Qwen3ForCausalLM : public CausalLM<Qwen3ForCausalLM, Qwen3ForCausalLMInit> {
 public:
  static constexpr std::string_view kName = "qwen3_for_causal_lm";
  static constexpr std::string_view kClass = "Qwen3ForCausalLM";

  using CausalLM::CausalLM;

  static DecoderLayerInit layer(const Init& init, int64_t i);
  static std::vector<Case<Qwen3ForCausalLM>> cases();
};

}  // namespace fk
