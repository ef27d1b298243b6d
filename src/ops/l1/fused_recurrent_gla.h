// FusedRecurrentGLA: gated linear attention, one token of each sequence.
#pragma once

#include "ops/l1/recurrence_rules.h"

namespace fk {

class FusedRecurrentGLA : public LinearRecurrenceOperator<GLARule, false> {
 public:
  static constexpr std::string_view kName = "fused_recurrent_gla";
  static constexpr std::string_view kClass = "FusedRecurrentGLA";

  using LinearRecurrenceOperator::LinearRecurrenceOperator;

  static std::vector<Case<FusedRecurrentGLA>> cases();
};

}  // namespace fk
