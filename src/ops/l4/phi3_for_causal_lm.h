// Phi3ForCausalLM: Phi 3 and 4: as Llama; some rotate only a part of each head.
#pragma once

#include "ops/l4/causal_lm.h"

namespace fk {

struct Phi3ForCausalLMInit : DecoderModelInit {
  int64_t rotary_dim = 0;      // elements of a head that are rotated; 0: all
  int64_t sliding_window = 0;  // of every layer; 0: none

  template <class Visitor>
  void visit(Visitor&& v) {
    DecoderModelInit::visit(v);
    v("rotary_dim", rotary_dim);
    v("sliding_window", sliding_window);
  }
};

class Phi3ForCausalLM : public CausalLM<Phi3ForCausalLM, Phi3ForCausalLMInit> {
 public:
  static constexpr std::string_view kName = "phi3_for_causal_lm";
  static constexpr std::string_view kClass = "Phi3ForCausalLM";

  using CausalLM::CausalLM;

  static DecoderLayerInit layer(const Init& init, int64_t i);

  static std::vector<Case<Phi3ForCausalLM>> cases();
};

}  // namespace fk
