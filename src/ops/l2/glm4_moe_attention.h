// Glm4MoeAttention: the attention block of GLM 4.5, which norms queries and keys where qk_norm is set.
#pragma once

#include "ops/l2/attention_block.h"

namespace fk {

class Glm4MoeAttention : public AttentionBlock {
 public:
  static constexpr std::string_view kName = "glm4_moe_attention";
  static constexpr std::string_view kClass = "Glm4MoeAttention";

  using AttentionBlock::AttentionBlock;

  static std::vector<Case<Glm4MoeAttention>> cases();
};

}  // namespace fk
