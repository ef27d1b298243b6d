// Olmo2Attention: attention with one norm over all heads of the queries, and one over all heads of the keys.
#pragma once

#include "ops/l2/attention_block.h"

namespace fk {

class Olmo2Attention : public AttentionBlock {
 public:
  static constexpr std::string_view kName = "olmo2_attention";
  static constexpr std::string_view kClass = "Olmo2Attention";

  using AttentionBlock::AttentionBlock;

  static std::vector<Case<Olmo2Attention>> cases();
};

}  // namespace fk
