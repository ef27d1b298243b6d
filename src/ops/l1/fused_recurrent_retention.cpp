#include "ops/l1/fused_recurrent_retention.h"

#include "ops/l1/recurrence_definition.h"
#include "ops/register.h"

namespace fk {

std::vector<Case<FusedRecurrentRetention>> FusedRecurrentRetention::cases() {
  return common_cases<FusedRecurrentRetention>();
}

namespace {
using FusedRecurrentRetentionOracle = RunsRecurrence<FusedRecurrentRetention, RecurrenceOracle>;
FK_OPERATOR(FusedRecurrentRetention, FusedRecurrentRetentionOracle);

FK_DEFINITION(FusedRecurrentRetention, define_step<RetentionRule>);
}  // namespace
}  // namespace fk
