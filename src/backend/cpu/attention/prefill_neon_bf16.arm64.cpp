// The prefill kernel for aarch64 with BFMMLA: products of bf16, summed in f32; weights of keys are rounded to bf16.
//
// All operands have one form: eight rows interleaved as [k / 4][8][4], so that 16 bytes are four numbers of two rows,
// the operand of an instruction. Keys are packed so for the scores, values by columns, [Dh / 8][key / 4][8][4], for
// the output. Sixteen queries are two groups of eight rows. Sums of a group and eight columns are [8][8].
#include <arm_neon.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "backend/cpu/attention/prefill.h"
#include "backend/cpu/matmul/bfmmla_tile.arm64.h"
#include "backend/cpu/simd.h"

namespace fk {
namespace {

using Bits = Bf16Bits;
constexpr int64_t kGroup = 8, kGroups = 2, kQueries = kGroup * kGroups;
constexpr int64_t kSums = kGroup * kGroup;
constexpr int64_t kKeyPanels = kKeysPerBlock / kGroup;
constexpr float kMinusInfinityScore = -std::numeric_limits<float>::infinity();

int64_t padded_to(int64_t n, int64_t unit) { return (n + unit - 1) / unit * unit; }
int64_t depth_of(int64_t head_size) { return padded_to(head_size, 4); }
int64_t columns_of(int64_t value_size) { return padded_to(value_size, kGroup); }

// e^x of numbers that are not above zero, as vexp() has it: 0 where it would be subnormal, NaN for NaN.
FK_INLINE float32x4_t exp_of_negative(float32x4_t x) {
  const float32x4_t least = vdupq_n_f32(-0x1.5d589ep6f), round = vdupq_n_f32(0x1.8p23f);
  const float32x4_t within = vmaxq_f32(x, least);
  const float32x4_t shifted = vfmaq_f32(round, within, vdupq_n_f32(0x1.715476p0f)), n = vsubq_f32(shifted, round);
  float32x4_t r = vfmsq_f32(within, n, vdupq_n_f32(0x1.62e4p-1f));
  r = vfmsq_f32(r, n, vdupq_n_f32(0x1.7f7d1cp-20f));
  float32x4_t q = vfmaq_f32(vdupq_n_f32(8.368780836e-03f), vdupq_n_f32(1.381446724e-03f), r);
  q = vfmaq_f32(vdupq_n_f32(4.166839272e-02f), q, r);
  q = vfmaq_f32(vdupq_n_f32(1.666651964e-01f), q, r);
  q = vfmaq_f32(vdupq_n_f32(4.999999404e-01f), q, r);
  const float32x4_t p = vaddq_f32(vfmaq_f32(r, vmulq_f32(r, r), q), vdupq_n_f32(1.0f));
  const uint32x4_t y = vaddq_u32(vreinterpretq_u32_f32(p), vshlq_n_u32(vreinterpretq_u32_f32(shifted), 23));
  return vreinterpretq_f32_u32(vbicq_u32(y, vcltq_f32(x, least)));
}

// Row r of eight becomes part of a packed operand; elements past the end are zero.
void pack_row(const Bits* row, int64_t count, int64_t r, Bits* packed) {
  int64_t d = 0;
  for (; d + 4 <= count; d += 4) std::memcpy(packed + d * kGroup + r * 4, row + d, 4 * sizeof(Bits));
  if (d == count) return;
  Bits rest[4] = {};
  std::memcpy(rest, row + d, static_cast<size_t>(count - d) * sizeof(Bits));
  std::memcpy(packed + d * kGroup + r * 4, rest, sizeof rest);
}

void pack(const PackBlockTask& t) {
  const int64_t depth = depth_of(t.head_size), columns = columns_of(t.value_size);
  auto* keys = reinterpret_cast<Bits*>(t.block);
  Bits* values = keys + kKeysPerBlock * depth;
  if (t.keys < kKeysPerBlock) std::memset(keys, 0, static_cast<size_t>(kKeysPerBlock * depth) * sizeof(Bits));
  for (int64_t j = 0; j < t.keys; ++j)
    pack_row(static_cast<const Bits*>(t.k[j]), t.head_size, j % kGroup, keys + j / kGroup * kGroup * depth);
  for (int64_t d = 0; d < columns; d += kGroup) {
    const int64_t count = std::min(kGroup, t.value_size - d);
    for (int64_t j = 0; j < kKeysPerBlock; j += 4) {
      Bits rows[4][kGroup] = {};
      for (int64_t r = 0; r < std::min<int64_t>(4, t.keys - j); ++r)
        std::memcpy(rows[r], static_cast<const Bits*>(t.v[j + r]) + d, static_cast<size_t>(count) * sizeof(Bits));
      vst4q_u16(values + d * kKeysPerBlock + j * kGroup,
                {{vld1q_u16(rows[0]), vld1q_u16(rows[1]), vld1q_u16(rows[2]), vld1q_u16(rows[3])}});
    }
  }
}

// Of a group of queries.
struct GroupState {
  float largest[kGroup];
  float sum[kGroup];
  float rescale[kGroup];  // what the outputs so far must be multiplied by
};

// Scores of keys that a query does not see become -infinity. Key j of query r is at [j / 8][r][j % 8].
void hide_keys(float* scores, int64_t key, const int32_t* first, const int32_t* last) {
  const int32_t steps[4] = {0, 1, 2, 3};
  for (int64_t r = 0; r < kGroup; ++r) {
    const int32x4_t from = vdupq_n_s32(first[r]), to = vdupq_n_s32(last[r]);
    for (int64_t j = 0; j < kKeysPerBlock; j += 4) {
      float* four = scores + j / kGroup * kSums + r * kGroup + j % kGroup;
      const int32x4_t at = vaddq_s32(vdupq_n_s32(static_cast<int32_t>(key + j)), vld1q_s32(steps));
      const uint32x4_t seen = vandq_u32(vcgeq_s32(at, from), vcltq_s32(at, to));
      vst1q_f32(four, vbslq_f32(seen, vld1q_f32(four), vdupq_n_f32(kMinusInfinityScore)));
    }
  }
}

// Scores become weights, rounded and packed as an operand.
FK_TARGET_BF16 void weigh_keys(const float* scores, GroupState& state, Bits* weights) {
  float shift[kGroup], before[kGroup];
  for (int64_t r = 0; r < kGroup; ++r) {
    const float* row = scores + r * kGroup;
    float32x4_t most = vld1q_f32(row), more = vld1q_f32(row + 4);
    for (int64_t p = 1; p < kKeyPanels; ++p) {
      most = vmaxq_f32(most, vld1q_f32(row + p * kSums));
      more = vmaxq_f32(more, vld1q_f32(row + p * kSums + 4));
    }
    before[r] = state.largest[r];
    // A NaN stays one.
    state.largest[r] = vmaxvq_f32(vmaxq_f32(vmaxq_f32(most, more), vdupq_n_f32(before[r])));
    shift[r] = state.largest[r] == kMinusInfinityScore ? 0.0f : state.largest[r];  // a query that has seen no key yet
  }
  for (int64_t r = 0; r < kGroup; r += 4)
    vst1q_f32(state.rescale + r, exp_of_negative(vsubq_f32(vld1q_f32(before + r), vld1q_f32(shift + r))));
  for (int64_t r = 0; r < kGroup; ++r) {
    const float* row = scores + r * kGroup;
    const float32x4_t by = vdupq_n_f32(shift[r]);
    float32x4_t sums[2] = {};
#pragma GCC unroll 4
    for (int64_t j = 0; j < kKeysPerBlock; j += 4) {
      const float32x4_t e = exp_of_negative(vsubq_f32(vld1q_f32(row + j / kGroup * kSums + j % kGroup), by));
      sums[j / 4 % 2] = vaddq_f32(sums[j / 4 % 2], e);
      vst1_u16(weights + j * kGroup + r * 4, vreinterpret_u16_bf16(vcvt_bf16_f32(e)));
    }
    state.sum[r] = state.sum[r] * state.rescale[r] + vaddvq_f32(vaddq_f32(sums[0], sums[1]));
  }
}

void rescale_sums(float* sums, int64_t columns, const float* by) {
  if (std::all_of(by, by + kGroup, [](float f) { return f == 1.0f; })) return;
  for (int64_t d = 0; d < columns; d += kGroup, sums += kSums)
    for (int64_t r = 0; r < kGroup; ++r) {
      vst1q_f32(sums + r * kGroup, vmulq_n_f32(vld1q_f32(sums + r * kGroup), by[r]));
      vst1q_f32(sums + r * kGroup + 4, vmulq_n_f32(vld1q_f32(sums + r * kGroup + 4), by[r]));
    }
}

template <class T>
void store_row(const float* sums, float factor, int64_t count, T* out) {
  for (int64_t d = 0; d < count; ++d) store(out[d], sums[d / kGroup * kSums + d % kGroup] * factor);
}

size_t block_bytes(int64_t head_size, int64_t value_size) {
  return static_cast<size_t>(kKeysPerBlock * (depth_of(head_size) + columns_of(value_size))) * sizeof(Bits);
}

size_t scratch_bytes(int64_t head_size, int64_t value_size) {
  return static_cast<size_t>(kKeysPerBlock * kGroup + kQueries * columns_of(value_size)) * sizeof(float) +
         static_cast<size_t>(kQueries * depth_of(head_size) + kKeysPerBlock * kGroup) * sizeof(Bits);
}

void attend(const AttendTask& t) {
  const int64_t depth = depth_of(t.head_size), columns = columns_of(t.value_size);
  auto* scores = reinterpret_cast<float*>(t.scratch);                  // [key / 8][8][8] of one group
  float* sums = scores + kKeysPerBlock * kGroup;                       // [group][column / 8][8][8]
  auto* queries = reinterpret_cast<Bits*>(sums + kQueries * columns);  // [group] packed
  Bits* weights = queries + kQueries * depth;                          // packed, of one group
  for (int64_t r = 0; r < kQueries; ++r)
    pack_row(static_cast<const Bits*>(t.q[r]), t.head_size, r % kGroup, queries + r / kGroup * kGroup * depth);
  std::fill_n(sums, kQueries * columns, 0.0f);
  GroupState state[kGroups] = {};
  for (int64_t r = 0; r < kQueries; ++r) {  // a sink is as a key with this score, whose value is zero
    state[r / kGroup].largest[r % kGroup] = t.sinks != nullptr ? t.sinks[r] : kMinusInfinityScore;
    state[r / kGroup].sum[r % kGroup] = t.sinks != nullptr ? 1.0f : 0.0f;
  }
  for (int64_t b = t.first_block; b < t.last_block; ++b) {
    const auto* keys = reinterpret_cast<const Bits*>(t.blocks + static_cast<size_t>(b - t.first_block) *
                                                                    block_bytes(t.head_size, t.value_size));
    const Bits* values = keys + kKeysPerBlock * depth;
    const int64_t key = b * kKeysPerBlock;
    for (int64_t g = 0; g < kGroups; ++g) {
      const int32_t *first = t.first + g * kGroup, *last = t.last + g * kGroup;
      float* own = sums + g * kGroup * columns;
      for (int64_t p = 0; p < kKeyPanels; ++p)
        bfmmla_tile(queries + g * kGroup * depth, keys + p * kGroup * depth, depth, true, scores + p * kSums);
      finish_scores(scores, kKeysPerBlock * kGroup, t.rule);
      // Else every query of the group sees every key.
      if (key < *std::max_element(first, first + kGroup) ||
          key + kKeysPerBlock > *std::min_element(last, last + kGroup))
        hide_keys(scores, key, first, last);
      weigh_keys(scores, state[g], weights);
      rescale_sums(own, columns, state[g].rescale);
      for (int64_t d = 0; d < columns; d += kGroup)
        bfmmla_tile(weights, values + d * kKeysPerBlock, kKeysPerBlock, false, own + d * kGroup);
    }
  }
  for (int64_t r = 0; r < t.rows; ++r) {
    const float* row = sums + r / kGroup * kGroup * columns + r % kGroup * kGroup;
    const float factor = t.first[r] < t.last[r] ? 1 / state[r / kGroup].sum[r % kGroup] : 0.0f;  // without keys: zero
    if (t.float_out)
      store_row(row, factor, t.value_size, static_cast<float*>(t.out[r]));
    else
      store_row(row, factor, t.value_size, static_cast<bf16*>(t.out[r]));
  }
  for (int64_t r = 0; r < kQueries && t.lse != nullptr; ++r) {
    const GroupState& s = state[r / kGroup];
    t.lse[r] = t.first[r] < t.last[r] ? s.largest[r % kGroup] + std::log(s.sum[r % kGroup]) : kMinusInfinityScore;
  }
}

}  // namespace

const PrefillKernel kPrefillNeonBf16{kQueries, block_bytes, scratch_bytes, pack, attend};

}  // namespace fk
