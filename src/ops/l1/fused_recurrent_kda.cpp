#include "ops/l1/fused_recurrent_kda.h"

#include "ops/l1/recurrence_definition.h"
#include "ops/register.h"

namespace fk {

std::vector<Case<FusedRecurrentKDA>> FusedRecurrentKDA::cases() { return common_cases<FusedRecurrentKDA>(); }

namespace {
using FusedRecurrentKDAOracle = RunsRecurrence<FusedRecurrentKDA, RecurrenceOracle>;
FK_OPERATOR(FusedRecurrentKDA, FusedRecurrentKDAOracle);

FK_DEFINITION(FusedRecurrentKDA, define_step<KDARule>);
}  // namespace
}  // namespace fk
