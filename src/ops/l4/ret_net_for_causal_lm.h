// RetNetForCausalLM: RetNet as a language model.
#pragma once

#include "ops/l3/ret_net_block.h"
#include "ops/l4/linear_attention_lm.h"

namespace fk {

class RetNetForCausalLM : public LinearAttentionLM<RetNetForCausalLM, RetNetBlock> {
 public:
  static constexpr std::string_view kName = "ret_net_for_causal_lm";
  static constexpr std::string_view kClass = "RetNetForCausalLM";

  using LinearAttentionLM::LinearAttentionLM;
};

}  // namespace fk
