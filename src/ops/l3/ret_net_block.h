// RetNetBlock: a layer of RetNet.
#pragma once

#include "ops/l2/multi_scale_retention.h"
#include "ops/l3/linear_attention_layer.h"

namespace fk {

class RetNetBlock : public LinearAttentionLayer<MultiScaleRetention> {
 public:
  static constexpr std::string_view kName = "ret_net_block";
  static constexpr std::string_view kClass = "RetNetBlock";

  using LinearAttentionLayer::LinearAttentionLayer;

  static std::vector<Case<RetNetBlock>> cases();
};

}  // namespace fk
