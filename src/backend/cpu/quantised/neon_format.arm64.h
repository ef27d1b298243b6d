// The loops that all weight formats share, over a struct that says how one of them is unpacked:
//
//   kElements, kBytes   of a block
//   kGroup              codes that share a scale: 32 or 16
//   kMinimums           whether groups have minimums
//   kOffset             what raw() leaves out: codes are raw - kOffset
//   raw(block, g)       32 codes with the offset, as two vectors
//   scales(block, scales, minimums)
//                       of all groups of a block
//   kUnit               elements that rows_of() takes at a time: four groups, or a block where that is more
//   unit_scales(unit)   of the groups of such a unit, four in each vector
#pragma once

#include <arm_neon.h>

#include <bit>
#include <cstring>

#include "backend/cpu/quantised/neon_kernels.arm64.h"

// Attributes, not compiler flags for the file: inline functions of headers still run on CPUs without SDOT.
#define FK_TARGET_DOT __attribute__((target("arch=armv8.2-a+dotprod")))
#define FK_INLINE_DOT FK_TARGET_DOT inline __attribute__((always_inline))

namespace fk::neon {

struct Codes {
  int8x16_t low, high;
};

FK_INLINE_DOT float half_at(const std::byte* address) {
  float16_t half;
  std::memcpy(&half, address, sizeof half);
  return static_cast<float>(half);
}

// Four halves that lie `stride` bytes apart.
FK_INLINE_DOT float32x4_t four_halves(const std::byte* address, int64_t stride) {
  uint16_t halves[4];
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) std::memcpy(&halves[i], address + i * stride, sizeof halves[i]);
  uint64_t bits = halves[0] | static_cast<uint64_t>(halves[1]) << 16 | static_cast<uint64_t>(halves[2]) << 32 |
                  static_cast<uint64_t>(halves[3]) << 48;
  return vcvt_f32_f16(vreinterpret_f16_u64(vcreate_u64(bits)));
}

FK_INLINE_DOT uint8x16_t load_bytes(const std::byte* address) {
  return vld1q_u8(reinterpret_cast<const uint8_t*>(address));
}

// Scales and minimums of the groups of a unit, four in each vector.
template <int kVectors>
struct UnitScales {
  float32x4_t scales[kVectors], minimums[kVectors];
};

// The sums of four vectors as one vector. Converting that is one conversion for four groups: SCVTF is slow.
FK_INLINE_DOT float32x4_t sums_of_four(int32x4_t a, int32x4_t b, int32x4_t c, int32x4_t d) {
  return vcvtq_f32_s32(vpaddq_s32(vpaddq_s32(a, b), vpaddq_s32(c, d)));
}

FK_INLINE_DOT int32x4_t dot_32(Codes w, Codes x) {
  return vdotq_s32(vdotq_s32(vdupq_n_s32(0), w.low, x.low), w.high, x.high);
}

FK_INLINE_DOT Codes load_codes(const int8_t* codes) { return {vld1q_s8(codes), vld1q_s8(codes + 16)}; }

// Row t of x from element `at` on with the blocks at w: for formats whose block is one group.
template <class F>
FK_TARGET_DOT float rest_of(const std::byte* w, const RoundedRows& x, int64_t t, int64_t at) {
  float sum = 0;
  for (; at < x.k; at += F::kElements, w += F::kBytes) {
    int64_t group = t * x.groups() + at / kRoundedGroup;
    float scale = 0, minimum = 0;
    F::scales(w, &scale, &minimum);
    auto products = static_cast<float>(vaddvq_s32(dot_32(F::raw(w, 0), load_codes(x.codes + t * x.k + at))));
    sum += scale * (x.scales[group] * products - static_cast<float>(F::kOffset) * x.sums[group]);
  }
  return sum;
}

// What one vector of scales of w meets in a row of x.
template <int kSteps>
struct UnitOfRow {
  Codes codes[kSteps];
  float32x4_t scales, sums;
};

template <class F, int kSteps>
FK_INLINE_DOT UnitOfRow<kSteps> unit_of_row(const RoundedRows& x, int64_t t, int64_t at, int v) {
  UnitOfRow<kSteps> unit;
  int64_t first = at + v * kSteps * kRoundedGroup, group = t * x.groups() + first / kRoundedGroup;
#pragma GCC unroll 8
  for (int s = 0; s < kSteps; ++s) unit.codes[s] = load_codes(x.codes + t * x.k + first + s * kRoundedGroup);
  if constexpr (F::kGroup == 32) {
    unit.scales = vld1q_f32(x.scales + group);
    unit.sums = vld1q_f32(x.sums + group);
  } else {
    float32x2_t pair = vld1_f32(x.scales + group);
    unit.scales = vcombine_f32(vdup_lane_f32(pair, 0), vdup_lane_f32(pair, 1));
    unit.sums = vdupq_n_f32(0);
  }
  return unit;
}

// sums of M rows of x with R rows of w from `row` on
template <class F, int M, int R>
FK_TARGET_DOT void rows_of(const RowsTask& task, int64_t row, int64_t first_x) {
  constexpr int kVectors = F::kUnit / F::kGroup / 4;
  constexpr int64_t kUnitBytes = F::kUnit / F::kElements * F::kBytes;
  constexpr int kSteps = 4 * F::kGroup / kRoundedGroup;  // groups of x for one vector of scales
  const RoundedRows& x = *task.x;
  const std::byte* w = task.w + row * task.w_stride;
  float32x4_t sums[M][R], minimums[M][R];
#pragma GCC unroll 8
  for (int m = 0; m < M; ++m)
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) sums[m][r] = minimums[m][r] = vdupq_n_f32(0);
  int64_t at = 0;
  for (; at + F::kUnit <= x.k; at += F::kUnit, w += kUnitBytes) {
    UnitScales<kVectors> scales[R];
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      const std::byte* unit = w + r * task.w_stride;
      // The rows that follow: hardware does not see that streams this short continue there.
#pragma GCC unroll 8
      for (int64_t line = 0; line < kUnitBytes; line += 64) __builtin_prefetch(unit + R * task.w_stride + line, 0, 0);
      scales[r] = F::unit_scales(unit);
    }
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) {
      UnitOfRow<kSteps> one;  // a single row of x stays in registers for all rows of w
      if constexpr (M == 1) one = unit_of_row<F, kSteps>(x, first_x, at, v);
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r) {
        Codes codes[kSteps];
#pragma GCC unroll 8
        for (int s = 0; s < kSteps; ++s) codes[s] = F::unit_raw(w + r * task.w_stride, v * kSteps + s);
#pragma GCC unroll 8
        for (int m = 0; m < M; ++m) {
          if constexpr (M > 1) one = unit_of_row<F, kSteps>(x, first_x + m, at, v);
          float32x4_t products;
          if constexpr (F::kGroup == 32) {
            products = sums_of_four(dot_32(codes[0], one.codes[0]), dot_32(codes[1], one.codes[1]),
                                    dot_32(codes[2], one.codes[2]), dot_32(codes[3], one.codes[3]));
            if constexpr (F::kMinimums) minimums[m][r] = vfmaq_f32(minimums[m][r], scales[r].minimums[v], one.sums);
            if constexpr (F::kOffset != 0) minimums[m][r] = vfmaq_f32(minimums[m][r], scales[r].scales[v], one.sums);
          } else {
            int32x4_t zero = vdupq_n_s32(0);
            Codes a = one.codes[0], b = one.codes[1];
            products = sums_of_four(vdotq_s32(zero, codes[0].low, a.low), vdotq_s32(zero, codes[0].high, a.high),
                                    vdotq_s32(zero, codes[1].low, b.low), vdotq_s32(zero, codes[1].high, b.high));
          }
          sums[m][r] = vfmaq_f32(sums[m][r], products, vmulq_f32(scales[r].scales[v], one.scales));
        }
      }
    }
  }
  constexpr float kFactor = F::kOffset != 0 ? F::kOffset : 1;
#pragma GCC unroll 8
  for (int m = 0; m < M; ++m)
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      float sum = vaddvq_f32(sums[m][r]) - kFactor * vaddvq_f32(minimums[m][r]);
      if constexpr (F::kUnit > F::kElements)  // blocks that are no whole unit
        sum += rest_of<F>(w + r * task.w_stride, x, first_x + m, at);
      task.sums[(first_x + m) * task.sums_stride + row + r] = sum;
    }
}

template <class F, int M>
FK_TARGET_DOT void rows_with(const RowsTask& task, int64_t first_x) {
  constexpr int kRows = 2;
  int64_t row = 0;
  for (; row + kRows <= task.rows; row += kRows) rows_of<F, M, kRows>(task, row, first_x);
  for (; row < task.rows; ++row) rows_of<F, M, 1>(task, row, first_x);
}

template <class F>
void rows(const RowsTask& task) {
  static_assert(F::kGroup == 32 || (!F::kMinimums && F::kOffset == 0));
  static_assert(!F::kMinimums || F::kOffset == 0);
  int64_t t = 0;
  for (; t + 4 <= task.x->m; t += 4) rows_with<F, 4>(task, t);
  for (; t + 2 <= task.x->m; t += 2) rows_with<F, 2>(task, t);
  for (; t < task.x->m; ++t) rows_with<F, 1>(task, t);
}

// Words of four codes, four rows by four words, transposed.
FK_INLINE_DOT void store_transposed(const int8x16_t (&rows)[4], int8_t* to, int64_t stride) {
  int32x4_t a = vreinterpretq_s32_s8(rows[0]), b = vreinterpretq_s32_s8(rows[1]), c = vreinterpretq_s32_s8(rows[2]),
            d = vreinterpretq_s32_s8(rows[3]);
  int64x2_t ab0 = vreinterpretq_s64_s32(vtrn1q_s32(a, b)), ab1 = vreinterpretq_s64_s32(vtrn2q_s32(a, b)),
            cd0 = vreinterpretq_s64_s32(vtrn1q_s32(c, d)), cd1 = vreinterpretq_s64_s32(vtrn2q_s32(c, d));
  vst1q_s8(to, vreinterpretq_s8_s64(vtrn1q_s64(ab0, cd0)));
  vst1q_s8(to + stride, vreinterpretq_s8_s64(vtrn1q_s64(ab1, cd1)));
  vst1q_s8(to + 2 * stride, vreinterpretq_s8_s64(vtrn2q_s64(ab0, cd0)));
  vst1q_s8(to + 3 * stride, vreinterpretq_s8_s64(vtrn2q_s64(ab1, cd1)));
}

template <class F>
FK_TARGET_DOT void panel(const PanelTask8& task) {
  constexpr int64_t kGroups = F::kElements / F::kGroup, kSteps = F::kElements / kRoundedGroup;
  const int8x16_t offset = vdupq_n_s8(F::kOffset);
  for (int64_t block = 0; block * F::kElements < task.k; ++block) {
    for (int64_t half = 0; half < 2; ++half) {  // four rows
      for (int64_t r = 0; r < 4; ++r) {
        int64_t row = half * 4 + r;
        float scales[kGroups] = {}, minimums[kGroups] = {};
        if (row < task.rows) F::scales(task.w + row * task.w_stride + block * F::kBytes, scales, minimums);
        for (int64_t g = 0; g < kGroups; ++g) {
          task.scales[(block * kGroups + g) * 8 + row] = scales[g];
          if constexpr (F::kMinimums) task.minimums[(block * kGroups + g) * 8 + row] = minimums[g];
        }
      }
      for (int64_t step = 0; step < kSteps; ++step) {
        int8x16_t low[4], high[4];
#pragma GCC unroll 4
        for (int64_t r = 0; r < 4; ++r) {
          low[r] = high[r] = vdupq_n_s8(0);
          if (half * 4 + r >= task.rows) continue;
          Codes codes = F::raw(task.w + (half * 4 + r) * task.w_stride + block * F::kBytes, step);
          low[r] = vsubq_s8(codes.low, offset);
          high[r] = vsubq_s8(codes.high, offset);
        }
        int8_t* to = task.codes + (block * kSteps + step) * kRoundedGroup * 8 + half * 16;
        store_transposed(low, to, 32);
        store_transposed(high, to + 4 * 32, 32);
      }
    }
  }
}

template <class F>
NeonFormat kernels_of(std::string_view name) {
  return {name, rows<F>, panel<F>};
}

}  // namespace fk::neon
