// GemmaMLP: the gated feed-forward block with tanh-GELU.
#pragma once

#include "ops/l2/mlp_block.h"

namespace fk {

class GemmaMLP : public MlpBlock {
 public:
  static constexpr std::string_view kName = "gemma_mlp";
  static constexpr std::string_view kClass = "GemmaMLP";

  using MlpBlock::MlpBlock;

  static std::vector<Case<GemmaMLP>> cases();
};

}  // namespace fk
