#include "ops/l1/chunk_kda.h"

#include "ops/register.h"

namespace fk {

std::vector<Case<ChunkKDA>> ChunkKDA::cases() { return common_cases<ChunkKDA>(); }

namespace {
using ChunkKDAOracle = RunsRecurrence<ChunkKDA, RecurrenceOracle>;
FK_OPERATOR(ChunkKDA, ChunkKDAOracle);
}  // namespace
}  // namespace fk
