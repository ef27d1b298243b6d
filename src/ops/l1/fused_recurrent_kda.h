// FusedRecurrentKDA: Kimi delta attention, one token of each sequence.
#pragma once

#include "ops/l1/recurrence_rules.h"

namespace fk {

class FusedRecurrentKDA : public LinearRecurrenceOperator<KDARule, false> {
 public:
  static constexpr std::string_view kName = "fused_recurrent_kda";
  static constexpr std::string_view kClass = "FusedRecurrentKDA";

  using LinearRecurrenceOperator::LinearRecurrenceOperator;

  static std::vector<Case<FusedRecurrentKDA>> cases();
};

}  // namespace fk
