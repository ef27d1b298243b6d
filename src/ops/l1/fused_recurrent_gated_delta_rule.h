// FusedRecurrentGatedDeltaRule: the gated delta rule, one token of each sequence.
#pragma once

#include "ops/l1/recurrence_rules.h"

namespace fk {

class FusedRecurrentGatedDeltaRule : public LinearRecurrenceOperator<GatedDeltaRule, false> {
 public:
  static constexpr std::string_view kName = "fused_recurrent_gated_delta_rule";
  static constexpr std::string_view kClass = "FusedRecurrentGatedDeltaRule";

  using LinearRecurrenceOperator::LinearRecurrenceOperator;

  static std::vector<Case<FusedRecurrentGatedDeltaRule>> cases();
};

}  // namespace fk
