// GLAForCausalLM: gated linear attention as a language model.
#pragma once

#include "ops/l3/gla_block.h"
#include "ops/l4/linear_attention_lm.h"

namespace fk {

class GLAForCausalLM : public LinearAttentionLM<GLAForCausalLM, GLABlock> {
 public:
  static constexpr std::string_view kName = "gla_for_causal_lm";
  static constexpr std::string_view kClass = "GLAForCausalLM";

  using LinearAttentionLM::LinearAttentionLM;
};

}  // namespace fk
