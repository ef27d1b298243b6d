// ChunkGatedDeltaRule: the gated delta rule over the tokens of each sequence, on from its state.
#pragma once

#include "ops/l1/recurrence_rules.h"

namespace fk {

class ChunkGatedDeltaRule : public LinearRecurrenceOperator<GatedDeltaRule, true> {
 public:
  static constexpr std::string_view kName = "chunk_gated_delta_rule";
  static constexpr std::string_view kClass = "ChunkGatedDeltaRule";

  using LinearRecurrenceOperator::LinearRecurrenceOperator;

  static std::vector<Case<ChunkGatedDeltaRule>> cases();
};

}  // namespace fk
