// MistralForCausalLM: Llama with, in some checkpoints, a sliding window on every layer.
#pragma once

#include "ops/l4/causal_lm.h"

namespace fk {

class MistralForCausalLM : public CausalLM {
 public:
  static constexpr std::string_view kName = "mistral_for_causal_lm";
  static constexpr std::string_view kClass = "MistralForCausalLM";

  using CausalLM::CausalLM;

  static std::vector<Case<MistralForCausalLM>> cases();
};

}  // namespace fk
