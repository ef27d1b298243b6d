// Qwen3NextAttention: attention whose output is multiplied by a sigmoid gate, which the projection of queries holds
// too.
#pragma once

#include "ops/l2/attention_block.h"

namespace fk {

class Qwen3NextAttention : public AttentionBlock {
 public:
  static constexpr std::string_view kName = "qwen3_next_attention";
  static constexpr std::string_view kClass = "Qwen3NextAttention";

  using AttentionBlock::AttentionBlock;

  static Cost cost(const Init& init, const Workload& workload);
  static std::vector<Case<Qwen3NextAttention>> cases();
};

}  // namespace fk
