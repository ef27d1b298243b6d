// MistralForCausalLM: Llama with, in some checkpoints, a sliding window on every layer.
#pragma once

#include "ops/l4/causal_lm.h"

namespace fk {

struct MistralForCausalLMInit : DecoderModelInit {
  int64_t sliding_window = 0;  // of every layer; 0: none

  template <class Visitor>
  void visit(Visitor&& v) {
    DecoderModelInit::visit(v);
    v("sliding_window", sliding_window);
  }
};

class MistralForCausalLM : public CausalLM<MistralForCausalLM, MistralForCausalLMInit> {
 public:
  static constexpr std::string_view kName = "mistral_for_causal_lm";
  static constexpr std::string_view kClass = "MistralForCausalLM";

  using CausalLM::CausalLM;

  static DecoderLayerInit layer(const Init& init, int64_t i);
  static std::vector<Case<MistralForCausalLM>> cases();
};

}  // namespace fk
