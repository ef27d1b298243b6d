#include "ops/l1/chunk_gated_delta_rule.h"

#include "ops/register.h"

namespace fk {

std::vector<Case<ChunkGatedDeltaRule>> ChunkGatedDeltaRule::cases() { return common_cases<ChunkGatedDeltaRule>(); }

namespace {
using ChunkGatedDeltaRuleOracle = RunsRecurrence<ChunkGatedDeltaRule, RecurrenceOracle>;
FK_OPERATOR(ChunkGatedDeltaRule, ChunkGatedDeltaRuleOracle);
}  // namespace
}  // namespace fk
