// MultiScaleRetention: the block of RetNet, whose heads decay at fixed rates; queries and keys are rotated.
#pragma once

#include "ops/l2/linear_attention_block.h"

namespace fk {

class MultiScaleRetention : public LinearAttentionBlock {
 public:
  static constexpr std::string_view kName = "multi_scale_retention";
  static constexpr std::string_view kClass = "MultiScaleRetention";

  using LinearAttentionBlock::LinearAttentionBlock;

  static Cost cost(const Init& init, const Workload& workload);
  static std::vector<Case<MultiScaleRetention>> cases();
};

}  // namespace fk
