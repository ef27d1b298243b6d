// Gemma3Attention: attention with a Gemma norm over each head of queries and keys, global or sliding by layer.
#pragma once

#include "ops/l2/attention_block.h"

namespace fk {

class Gemma3Attention : public AttentionBlock {
 public:
  static constexpr std::string_view kName = "gemma3_attention";
  static constexpr std::string_view kClass = "Gemma3Attention";

  using AttentionBlock::AttentionBlock;

  static std::vector<Case<Gemma3Attention>> cases();
};

}  // namespace fk
