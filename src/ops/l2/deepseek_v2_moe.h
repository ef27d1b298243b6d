// DeepseekV2MoE: the experts of DeepSeek V3.
#pragma once

#include "ops/l2/grouped_moe_block.h"

namespace fk {

class DeepseekV2MoE : public GroupedMoeBlock {
 public:
  static constexpr std::string_view kName = "deepseek_v2_moe";
  static constexpr std::string_view kClass = "DeepseekV2MoE";

  using GroupedMoeBlock::GroupedMoeBlock;

  static std::vector<Case<DeepseekV2MoE>> cases();
};

}  // namespace fk
