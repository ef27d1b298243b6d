// GLABlock: a layer of GLA.
#pragma once

#include "ops/l2/gated_linear_attention.h"
#include "ops/l3/linear_attention_layer.h"

namespace fk {

class GLABlock : public LinearAttentionLayer<GatedLinearAttention> {
 public:
  static constexpr std::string_view kName = "gla_block";
  static constexpr std::string_view kClass = "GLABlock";

  using LinearAttentionLayer::LinearAttentionLayer;

  static std::vector<Case<GLABlock>> cases();
};

}  // namespace fk
