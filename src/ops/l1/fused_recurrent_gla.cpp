#include "ops/l1/fused_recurrent_gla.h"

#include "ops/l1/recurrence_definition.h"
#include "ops/register.h"

namespace fk {

std::vector<Case<FusedRecurrentGLA>> FusedRecurrentGLA::cases() { return common_cases<FusedRecurrentGLA>(); }

namespace {
using FusedRecurrentGLAOracle = RunsRecurrence<FusedRecurrentGLA, RecurrenceOracle>;
FK_OPERATOR(FusedRecurrentGLA, FusedRecurrentGLAOracle);

FK_DEFINITION(FusedRecurrentGLA, define_step<GLARule>);
}  // namespace
}  // namespace fk
