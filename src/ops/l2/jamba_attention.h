// JambaAttention: attention without a rotary embedding; the Mamba layers around it know the order of tokens.
#pragma once

#include "ops/l2/attention_block.h"

namespace fk {

class JambaAttention : public AttentionBlock {
 public:
  static constexpr std::string_view kName = "jamba_attention";
  static constexpr std::string_view kClass = "JambaAttention";
  using AttentionBlock::AttentionBlock;

  static std::vector<Case<JambaAttention>> cases();
};

}  // namespace fk
