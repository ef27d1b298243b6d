#include "ops/l1/chunk_retention.h"

#include "ops/register.h"

namespace fk {

std::vector<Case<ChunkRetention>> ChunkRetention::cases() { return common_cases<ChunkRetention>(); }

namespace {
using ChunkRetentionOracle = RunsRecurrence<ChunkRetention, RecurrenceOracle>;
FK_OPERATOR(ChunkRetention, ChunkRetentionOracle);
}  // namespace
}  // namespace fk
