// Gemma3ForCausalLM: the text part of Gemma 3.
#pragma once

#include "ops/l4/causal_lm.h"

namespace fk {

class Gemma3ForCausalLM : public CausalLM {
 public:
  static constexpr std::string_view kName = "gemma3_for_causal_lm";
  static constexpr std::string_view kClass = "Gemma3ForCausalLM";

  using CausalLM::CausalLM;

  // What token embeddings are multiplied by.
  static double embedding_scale(const CausalLMConfig& config);

  static std::vector<Case<Gemma3ForCausalLM>> cases();
};

}  // namespace fk
