// Qwen3ForCausalLM: dense Qwen 3.
#pragma once

#include "ops/l4/causal_lm.h"

namespace fk {

class Qwen3ForCausalLM : public CausalLM {
 public:
  static constexpr std::string_view kName = "qwen3_for_causal_lm";
  static constexpr std::string_view kClass = "Qwen3ForCausalLM";

  using CausalLM::CausalLM;

  static std::vector<Case<Qwen3ForCausalLM>> cases();
};

}  // namespace fk
