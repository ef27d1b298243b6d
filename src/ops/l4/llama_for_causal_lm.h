// LlamaForCausalLM: Llama 2, 3, 3.1 and 3.2.
#pragma once

#include "ops/l4/causal_lm.h"

namespace fk {

struct LlamaForCausalLMInit : DecoderModelInit {
  bool attention_bias = false;  // of all four projections
  bool mlp_bias = false;

  template <class Visitor>
  void visit(Visitor&& v) {
    DecoderModelInit::visit(v);
    v("attention_bias", attention_bias);
    v("mlp_bias", mlp_bias);
  }
};

class LlamaForCausalLM : public CausalLM<LlamaForCausalLM, LlamaForCausalLMInit> {
 public:
  static constexpr std::string_view kName = "llama_for_causal_lm";
  static constexpr std::string_view kClass = "LlamaForCausalLM";

  using CausalLM::CausalLM;

  static DecoderLayerInit layer(const Init& init, int64_t i);
  static std::vector<Case<LlamaForCausalLM>> cases();
};

}  // namespace fk
