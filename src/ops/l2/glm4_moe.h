// Glm4MoE: the experts of GLM 4.5.
#pragma once

#include "ops/l2/grouped_moe_block.h"

namespace fk {

class Glm4MoE : public GroupedMoeBlock {
 public:
  static constexpr std::string_view kName = "glm4_moe";
  static constexpr std::string_view kClass = "Glm4MoE";

  using GroupedMoeBlock::GroupedMoeBlock;

  static std::vector<Case<Glm4MoE>> cases();
};

}  // namespace fk
