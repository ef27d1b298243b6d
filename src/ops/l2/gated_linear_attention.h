// GatedLinearAttention: the block of GLA, whose decays are computed from the tokens by two small matrices.
#pragma once

#include "ops/l2/linear_attention_block.h"

namespace fk {

class GatedLinearAttention : public LinearAttentionBlock {
 public:
  static constexpr std::string_view kName = "gated_linear_attention";
  static constexpr std::string_view kClass = "GatedLinearAttention";

  using LinearAttentionBlock::LinearAttentionBlock;

  static Cost cost(const Init& init, const Workload& workload);
  static std::vector<Case<GatedLinearAttention>> cases();
};

}  // namespace fk
