// The loops that all weight formats share, over a struct that says how one of them is unpacked:
//
//   kElements, kBytes   of a block
//   kGroup              codes that share a scale: 32 or 16
//   kMinimums           whether groups have minimums
//   kOffset             what raw() leaves out: codes are raw - kOffset
//   raw(block, g)       32 codes with the offset, as two vectors
//   scales(block, scales, minimums)
//                       of all groups of a block
#pragma once

#include <arm_neon.h>

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

FK_INLINE_DOT uint8x16_t load_bytes(const std::byte* address) {
  return vld1q_u8(reinterpret_cast<const uint8_t*>(address));
}

// sums of M rows of x with R rows of w from `row` on
template <class F, int M, int R>
FK_TARGET_DOT void rows_of(const RowsTask& task, int64_t row, int64_t first_x) {
  constexpr int64_t kGroups = F::kElements / F::kGroup, kSteps = F::kElements / kRoundedGroup;
  const RoundedRows& x = *task.x;
  const std::byte* w = task.w + row * task.w_stride;
  float32x4_t sums[M][R];
  float minimums[M][R];
#pragma GCC unroll 8
  for (int m = 0; m < M; ++m)
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      sums[m][r] = vdupq_n_f32(0);
      minimums[m][r] = 0;
    }
  for (int64_t block = 0; block * F::kElements < x.k; ++block) {
    float w_scales[R][kGroups], w_minimums[R][F::kMinimums ? kGroups : 1];
    const std::byte* blocks[R];
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      blocks[r] = w + r * task.w_stride + block * F::kBytes;
      // The rows that follow: hardware does not see that streams this short continue there.
      for (int64_t line = 0; line < F::kBytes; line += 64)
        __builtin_prefetch(blocks[r] + R * task.w_stride + line, 0, 0);
      F::scales(blocks[r], w_scales[r], w_minimums[r]);
    }
#pragma GCC unroll 8
    for (int64_t step = 0; step < kSteps; ++step) {
      Codes codes[R];
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r) codes[r] = F::raw(blocks[r], step);
#pragma GCC unroll 8
      for (int m = 0; m < M; ++m) {
        int64_t t = first_x + m, g = block * kSteps + step;
        const int8_t* x_codes = x.codes + t * x.k + g * kRoundedGroup;
        int8x16_t low = vld1q_s8(x_codes), high = vld1q_s8(x_codes + 16);
        float x_scale = x.scales[t * x.groups() + g], x_sum = x.sums[t * x.groups() + g];
#pragma GCC unroll 8
        for (int r = 0; r < R; ++r) {
          int32x4_t zero = vdupq_n_s32(0);
          if constexpr (F::kGroup == 32) {
            int32x4_t products = vdotq_s32(vdotq_s32(zero, codes[r].low, low), codes[r].high, high);
            float scale = w_scales[r][step];
            sums[m][r] = vfmaq_n_f32(sums[m][r], vcvtq_f32_s32(products), scale * x_scale);
            if constexpr (F::kMinimums) minimums[m][r] += w_minimums[r][step] * x_sum;
            if constexpr (F::kOffset != 0) minimums[m][r] += scale * x_sum;
          } else {
            sums[m][r] = vfmaq_n_f32(sums[m][r], vcvtq_f32_s32(vdotq_s32(zero, codes[r].low, low)),
                                     w_scales[r][2 * step] * x_scale);
            sums[m][r] = vfmaq_n_f32(sums[m][r], vcvtq_f32_s32(vdotq_s32(zero, codes[r].high, high)),
                                     w_scales[r][2 * step + 1] * x_scale);
          }
        }
      }
    }
  }
  constexpr float kFactor = F::kOffset != 0 ? F::kOffset : 1;
#pragma GCC unroll 8
  for (int m = 0; m < M; ++m)
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r)
      task.sums[(first_x + m) * task.sums_stride + row + r] = vaddvq_f32(sums[m][r]) - kFactor * minimums[m][r];
}

template <class F, int M>
FK_TARGET_DOT void rows_with(const RowsTask& task, int64_t first_x) {
  constexpr int kRows = M == 1 ? 4 : 2;
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
