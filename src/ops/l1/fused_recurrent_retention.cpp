#include "ops/l1/fused_recurrent_retention.h"

#include "ops/register.h"

namespace fk {

std::vector<Case<FusedRecurrentRetention>> FusedRecurrentRetention::cases() {
  return common_cases<FusedRecurrentRetention>();
}

namespace {
using FusedRecurrentRetentionOracle = RunsRecurrence<FusedRecurrentRetention, RecurrenceOracle>;
FK_OPERATOR(FusedRecurrentRetention, FusedRecurrentRetentionOracle);
}  // namespace
}  // namespace fk
