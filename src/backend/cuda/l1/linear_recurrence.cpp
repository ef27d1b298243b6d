// Linear attention and delta rules on CUDA.
#include "ops/l1/linear_recurrence.h"

#include "backend/cuda/recurrence/chunk.h"
#include "backend/cuda/recurrence/one_token.h"
#include "backend/cuda/recurrence/step.h"
#include "ops/l1/chunk_gated_delta_rule.h"
#include "ops/l1/chunk_gla.h"
#include "ops/l1/chunk_kda.h"
#include "ops/l1/chunk_retention.h"
#include "ops/l1/chunk_rwkv7.h"
#include "ops/l1/fused_recurrent_gated_delta_rule.h"
#include "ops/l1/fused_recurrent_gla.h"
#include "ops/l1/fused_recurrent_kda.h"
#include "ops/l1/fused_recurrent_retention.h"
#include "ops/l1/fused_recurrent_rwkv7.h"
#include "ops/register.h"

namespace fk::cuda {
namespace {

using ChunkGLAInChunks = RunsRecurrence<ChunkGLA, RecurrenceChunks>;
using ChunkGLAInSteps = RunsRecurrence<ChunkGLA, RecurrenceSteps>;
using FusedRecurrentGLASteps = RunsRecurrence<FusedRecurrentGLA, RecurrenceSteps>;
using FusedRecurrentGLAToken = RunsRecurrence<FusedRecurrentGLA, RecurrenceOneToken>;
FK_IMPLEMENTATION(ChunkGLA, ChunkGLAInChunks, "cuda.chunk", DeviceKind::kCuda, 100, nullptr);
FK_IMPLEMENTATION(ChunkGLA, ChunkGLAInSteps, "cuda.step", DeviceKind::kCuda, 0, nullptr);
FK_IMPLEMENTATION(FusedRecurrentGLA, FusedRecurrentGLAToken, "cuda.one_token", DeviceKind::kCuda, 100, nullptr);
FK_IMPLEMENTATION(FusedRecurrentGLA, FusedRecurrentGLASteps, "cuda.step", DeviceKind::kCuda, 0, nullptr);

using ChunkRetentionInChunks = RunsRecurrence<ChunkRetention, RecurrenceChunks>;
using ChunkRetentionInSteps = RunsRecurrence<ChunkRetention, RecurrenceSteps>;
using FusedRecurrentRetentionSteps = RunsRecurrence<FusedRecurrentRetention, RecurrenceSteps>;
using FusedRecurrentRetentionToken = RunsRecurrence<FusedRecurrentRetention, RecurrenceOneToken>;
FK_IMPLEMENTATION(ChunkRetention, ChunkRetentionInChunks, "cuda.chunk", DeviceKind::kCuda, 100, nullptr);
FK_IMPLEMENTATION(ChunkRetention, ChunkRetentionInSteps, "cuda.step", DeviceKind::kCuda, 0, nullptr);
FK_IMPLEMENTATION(FusedRecurrentRetention, FusedRecurrentRetentionToken, "cuda.one_token", DeviceKind::kCuda, 100,
                  nullptr);
FK_IMPLEMENTATION(FusedRecurrentRetention, FusedRecurrentRetentionSteps, "cuda.step", DeviceKind::kCuda, 0, nullptr);

using ChunkGatedDeltaRuleInChunks = RunsRecurrence<ChunkGatedDeltaRule, RecurrenceChunks>;
using ChunkGatedDeltaRuleInSteps = RunsRecurrence<ChunkGatedDeltaRule, RecurrenceSteps>;
using FusedRecurrentGatedDeltaRuleSteps = RunsRecurrence<FusedRecurrentGatedDeltaRule, RecurrenceSteps>;
using FusedRecurrentGatedDeltaRuleToken = RunsRecurrence<FusedRecurrentGatedDeltaRule, RecurrenceOneToken>;
FK_IMPLEMENTATION(ChunkGatedDeltaRule, ChunkGatedDeltaRuleInChunks, "cuda.chunk", DeviceKind::kCuda, 100, nullptr);
FK_IMPLEMENTATION(ChunkGatedDeltaRule, ChunkGatedDeltaRuleInSteps, "cuda.step", DeviceKind::kCuda, 0, nullptr);
FK_IMPLEMENTATION(FusedRecurrentGatedDeltaRule, FusedRecurrentGatedDeltaRuleToken, "cuda.one_token", DeviceKind::kCuda,
                  100, nullptr);
FK_IMPLEMENTATION(FusedRecurrentGatedDeltaRule, FusedRecurrentGatedDeltaRuleSteps, "cuda.step", DeviceKind::kCuda, 0,
                  nullptr);

using ChunkKDAInChunks = RunsRecurrence<ChunkKDA, RecurrenceChunks>;
using ChunkKDAInSteps = RunsRecurrence<ChunkKDA, RecurrenceSteps>;
using FusedRecurrentKDASteps = RunsRecurrence<FusedRecurrentKDA, RecurrenceSteps>;
using FusedRecurrentKDAToken = RunsRecurrence<FusedRecurrentKDA, RecurrenceOneToken>;
FK_IMPLEMENTATION(ChunkKDA, ChunkKDAInChunks, "cuda.chunk", DeviceKind::kCuda, 100, nullptr);
FK_IMPLEMENTATION(ChunkKDA, ChunkKDAInSteps, "cuda.step", DeviceKind::kCuda, 0, nullptr);
FK_IMPLEMENTATION(FusedRecurrentKDA, FusedRecurrentKDAToken, "cuda.one_token", DeviceKind::kCuda, 100, nullptr);
FK_IMPLEMENTATION(FusedRecurrentKDA, FusedRecurrentKDASteps, "cuda.step", DeviceKind::kCuda, 0, nullptr);

using ChunkRWKV7InChunks = RunsRecurrence<ChunkRWKV7, RecurrenceChunks>;
using ChunkRWKV7InSteps = RunsRecurrence<ChunkRWKV7, RecurrenceSteps>;
using FusedRecurrentRWKV7Steps = RunsRecurrence<FusedRecurrentRWKV7, RecurrenceSteps>;
using FusedRecurrentRWKV7Token = RunsRecurrence<FusedRecurrentRWKV7, RecurrenceOneToken>;
FK_IMPLEMENTATION(ChunkRWKV7, ChunkRWKV7InChunks, "cuda.chunk", DeviceKind::kCuda, 100, nullptr);
FK_IMPLEMENTATION(ChunkRWKV7, ChunkRWKV7InSteps, "cuda.step", DeviceKind::kCuda, 0, nullptr);
FK_IMPLEMENTATION(FusedRecurrentRWKV7, FusedRecurrentRWKV7Token, "cuda.one_token", DeviceKind::kCuda, 100, nullptr);
FK_IMPLEMENTATION(FusedRecurrentRWKV7, FusedRecurrentRWKV7Steps, "cuda.step", DeviceKind::kCuda, 0, nullptr);

}  // namespace
}  // namespace fk::cuda
