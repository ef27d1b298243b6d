// LlamaForCausalLM: Llama 2, 3, 3.1 and 3.2.
#pragma once

#include "ops/l4/causal_lm.h"

namespace fk {

class LlamaForCausalLM : public CausalLM {
 public:
  static constexpr std::string_view kName = "llama_for_causal_lm";
  static constexpr std::string_view kClass = "LlamaForCausalLM";

  using CausalLM::CausalLM;

  static std::vector<Case<LlamaForCausalLM>> cases();
};

}  // namespace fk
