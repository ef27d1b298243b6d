// FusedRecurrentRWKV7: the recurrence of RWKV 7, one token of each sequence.
#pragma once

#include "ops/l1/recurrence_rules.h"

namespace fk {

class FusedRecurrentRWKV7 : public LinearRecurrenceOperator<RWKV7Rule, false> {
 public:
  static constexpr std::string_view kName = "fused_recurrent_rwkv7";
  static constexpr std::string_view kClass = "FusedRecurrentRWKV7";

  using LinearRecurrenceOperator::LinearRecurrenceOperator;

  static std::vector<Case<FusedRecurrentRWKV7>> cases();
};

}  // namespace fk
