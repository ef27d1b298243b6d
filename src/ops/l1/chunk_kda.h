// ChunkKDA: Kimi delta attention over the tokens of each sequence, on from its state.
#pragma once

#include "ops/l1/recurrence_rules.h"

namespace fk {

class ChunkKDA : public LinearRecurrenceOperator<KDARule, true> {
 public:
  static constexpr std::string_view kName = "chunk_kda";
  static constexpr std::string_view kClass = "ChunkKDA";

  using LinearRecurrenceOperator::LinearRecurrenceOperator;

  static std::vector<Case<ChunkKDA>> cases();
};

}  // namespace fk
