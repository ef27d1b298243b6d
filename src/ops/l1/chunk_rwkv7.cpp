#include "ops/l1/chunk_rwkv7.h"

#include "ops/register.h"

namespace fk {

std::vector<Case<ChunkRWKV7>> ChunkRWKV7::cases() { return common_cases<ChunkRWKV7>(); }

namespace {
using ChunkRWKV7Oracle = RunsRecurrence<ChunkRWKV7, RecurrenceOracle>;
FK_OPERATOR(ChunkRWKV7, ChunkRWKV7Oracle);
}  // namespace
}  // namespace fk
