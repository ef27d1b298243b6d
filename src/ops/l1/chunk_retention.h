// ChunkRetention: retention over the tokens of each sequence, on from its state.
#pragma once

#include "ops/l1/recurrence_rules.h"

namespace fk {

class ChunkRetention : public LinearRecurrenceOperator<RetentionRule, true> {
 public:
  static constexpr std::string_view kName = "chunk_retention";
  static constexpr std::string_view kClass = "ChunkRetention";

  using LinearRecurrenceOperator::LinearRecurrenceOperator;

  static std::vector<Case<ChunkRetention>> cases();
};

}  // namespace fk
