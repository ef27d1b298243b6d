// CohereAttention: attention with a layer norm of each head of queries and keys, every head with its own weight.
#pragma once

#include "ops/l2/attention_block.h"

namespace fk {

class CohereAttention : public AttentionBlock {
 public:
  static constexpr std::string_view kName = "cohere_attention";
  static constexpr std::string_view kClass = "CohereAttention";

  using AttentionBlock::AttentionBlock;

  static std::vector<Case<CohereAttention>> cases();
};

}  // namespace fk
