// MixtralMoE: the experts of Mixtral; the weights of a token's experts add up to one.
#pragma once

#include "ops/l2/sparse_moe_block.h"

namespace fk {

class MixtralMoE : public SparseMoeBlock {
 public:
  static constexpr std::string_view kName = "mixtral_moe";
  static constexpr std::string_view kClass = "MixtralMoE";

  using SparseMoeBlock::SparseMoeBlock;

  static std::vector<Case<MixtralMoE>> cases();
};

}  // namespace fk
