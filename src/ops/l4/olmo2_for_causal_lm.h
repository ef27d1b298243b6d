// Olmo2ForCausalLM: OLMo 2: norms after the blocks, and over all heads of queries and keys.
#pragma once

#include "ops/l4/causal_lm.h"

namespace fk {

struct Olmo2ForCausalLMInit : DecoderModelInit {
  bool attention_bias = false;  // of all four projections

  template <class Visitor>
  void visit(Visitor&& v) {
    DecoderModelInit::visit(v);
    v("attention_bias", attention_bias);
  }
};

class Olmo2ForCausalLM : public CausalLM<Olmo2ForCausalLM, Olmo2ForCausalLMInit> {
 public:
  static constexpr std::string_view kName = "olmo2_for_causal_lm";
  static constexpr std::string_view kClass = "Olmo2ForCausalLM";

  using CausalLM::CausalLM;

  static DecoderLayerInit layer(const Init& init, int64_t i);

  static std::vector<Case<Olmo2ForCausalLM>> cases();
};

}  // namespace fk
