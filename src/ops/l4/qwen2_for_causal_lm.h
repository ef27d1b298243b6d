// Qwen2ForCausalLM: Qwen 2 and 2.5: as Llama, with biases of queries, keys and values.
#pragma once

#include "ops/l4/causal_lm.h"

namespace fk {

struct Qwen2ForCausalLMInit : DecoderModelInit, SlidingLayers {
  template <class Visitor>
  void visit(Visitor&& v) {
    DecoderModelInit::visit(v);
    SlidingLayers::visit(v);
  }
};

class Qwen2ForCausalLM : public CausalLM<Qwen2ForCausalLM, Qwen2ForCausalLMInit> {
 public:
  static constexpr std::string_view kName = "qwen2_for_causal_lm";
  static constexpr std::string_view kClass = "Qwen2ForCausalLM";

  using CausalLM::CausalLM;

  static DecoderLayerInit layer(const Init& init, int64_t i);

  static std::vector<Case<Qwen2ForCausalLM>> cases();
};

}  // namespace fk
