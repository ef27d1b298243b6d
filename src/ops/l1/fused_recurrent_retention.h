// FusedRecurrentRetention: retention, one token of each sequence.
#pragma once

#include "ops/l1/recurrence_rules.h"

namespace fk {

class FusedRecurrentRetention : public LinearRecurrenceOperator<RetentionRule, false> {
 public:
  static constexpr std::string_view kName = "fused_recurrent_retention";
  static constexpr std::string_view kClass = "FusedRecurrentRetention";

  using LinearRecurrenceOperator::LinearRecurrenceOperator;

  static std::vector<Case<FusedRecurrentRetention>> cases();
};

}  // namespace fk
