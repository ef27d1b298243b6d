// Qwen3Attention: attention with an RMSNorm over each head of queries and keys.
#pragma once

#include "ops/l2/attention_block.h"

namespace fk {

class Qwen3Attention : public AttentionBlock {
 public:
  static constexpr std::string_view kName = "qwen3_attention";
  static constexpr std::string_view kClass = "Qwen3Attention";

  using AttentionBlock::AttentionBlock;

  static std::vector<Case<Qwen3Attention>> cases();
};

}  // namespace fk
