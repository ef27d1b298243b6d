#include "ops/l1/fused_recurrent_gated_delta_rule.h"

#include "ops/l1/recurrence_definition.h"
#include "ops/register.h"

namespace fk {

std::vector<Case<FusedRecurrentGatedDeltaRule>> FusedRecurrentGatedDeltaRule::cases() {
  return common_cases<FusedRecurrentGatedDeltaRule>();
}

namespace {
using FusedRecurrentGatedDeltaRuleOracle = RunsRecurrence<FusedRecurrentGatedDeltaRule, RecurrenceOracle>;
FK_OPERATOR(FusedRecurrentGatedDeltaRule, FusedRecurrentGatedDeltaRuleOracle);

FK_DEFINITION(FusedRecurrentGatedDeltaRule, define_step<GatedDeltaRule>);
}  // namespace
}  // namespace fk
