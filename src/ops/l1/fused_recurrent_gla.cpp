#include "ops/l1/fused_recurrent_gla.h"

#include "ops/register.h"

namespace fk {

std::vector<Case<FusedRecurrentGLA>> FusedRecurrentGLA::cases() { return common_cases<FusedRecurrentGLA>(); }

namespace {
using FusedRecurrentGLAOracle = RunsRecurrence<FusedRecurrentGLA, RecurrenceOracle>;
FK_OPERATOR(FusedRecurrentGLA, FusedRecurrentGLAOracle);
}  // namespace
}  // namespace fk
