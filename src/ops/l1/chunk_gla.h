// ChunkGLA: gated linear attention over the tokens of each sequence, on from its state.
#pragma once

#include "ops/l1/recurrence_rules.h"

namespace fk {

class ChunkGLA : public LinearRecurrenceOperator<GLARule, true> {
 public:
  static constexpr std::string_view kName = "chunk_gla";
  static constexpr std::string_view kClass = "ChunkGLA";

  using LinearRecurrenceOperator::LinearRecurrenceOperator;

  static std::vector<Case<ChunkGLA>> cases();
};

}  // namespace fk
