#include "ops/l1/chunk_gla.h"

#include "ops/register.h"

namespace fk {

std::vector<Case<ChunkGLA>> ChunkGLA::cases() { return common_cases<ChunkGLA>(); }

namespace {
using ChunkGLAOracle = RunsRecurrence<ChunkGLA, RecurrenceOracle>;
FK_OPERATOR(ChunkGLA, ChunkGLAOracle);
}  // namespace
}  // namespace fk
