// Glm4ForCausalLM: GLM 4: norms before and after each block; half of each head is rotated, in pairs of neighbours.
#pragma once

#include "ops/l4/causal_lm.h"

namespace fk {

struct Glm4ForCausalLMInit : DecoderModelInit {
  int64_t rotary_dim = 0;       // elements of a head that are rotated; 0: all
  bool attention_bias = false;  // of queries, keys and values

  template <class Visitor>
  void visit(Visitor&& v) {
    DecoderModelInit::visit(v);
    v("rotary_dim", rotary_dim);
    v("attention_bias", attention_bias);
  }
};

class Glm4ForCausalLM : public CausalLM<Glm4ForCausalLM, Glm4ForCausalLMInit> {
 public:
  static constexpr std::string_view kName = "glm4_for_causal_lm";
  static constexpr std::string_view kClass = "Glm4ForCausalLM";

  using CausalLM::CausalLM;

  static DecoderLayerInit layer(const Init& init, int64_t i);

  static std::vector<Case<Glm4ForCausalLM>> cases();
};

}  // namespace fk
