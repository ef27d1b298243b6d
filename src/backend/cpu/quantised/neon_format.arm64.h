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

// The sums of four vectors as one vector. Converting that is one conversion for four groups: SCVTF is slow.
FK_INLINE_DOT float32x4_t sums_of_four(int32x4_t a, int32x4_t b, int32x4_t c, int32x4_t d) {
  return vcvtq_f32_s32(vpaddq_s32(vpaddq_s32(a, b), vpaddq_s32(c, d)));
}

FK_INLINE_DOT int32x4_t dot_32(Codes w, Codes x) {
  return vdotq_s32(vdotq_s32(vdupq_n_s32(0), w.low, x.low), w.high, x.high);
}

FK_INLINE_DOT Codes load_codes(const int8_t* codes) { return {vld1q_s8(codes), vld1q_s8(codes + 16)}; }

FK_INLINE_DOT void load_unit(const int8_t* codes, Codes (&unit)[4]) {
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) unit[i] = load_codes(codes + i * kRoundedGroup);
}

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

// sums of M rows of x with R rows of w from `row` on, for formats whose block is one group: four blocks at a time
template <class F, int M, int R>
FK_TARGET_DOT void rows_of(const RowsTask& task, int64_t row, int64_t first_x) {
  static_assert(F::kElements == 32 && F::kGroup == 32 && !F::kMinimums);
  constexpr int64_t kUnit = 4 * F::kElements, kUnitBytes = 4 * F::kBytes;
  const RoundedRows& x = *task.x;
  const std::byte* w = task.w + row * task.w_stride;
  float32x4_t sums[M][R], offsets[M][R];
#pragma GCC unroll 8
  for (int m = 0; m < M; ++m)
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) sums[m][r] = offsets[m][r] = vdupq_n_f32(0);
  // Pointers that advance: addresses from indices would be half of the instructions.
  const std::byte* blocks[R];
  const int8_t* codes_of_x[M];
  const float *scales_of_x[M], *sums_of_x[M];
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) blocks[r] = w + r * task.w_stride;
#pragma GCC unroll 8
  for (int m = 0; m < M; ++m) {
    codes_of_x[m] = x.codes + (first_x + m) * x.k;
    scales_of_x[m] = x.scales + (first_x + m) * x.groups();
    sums_of_x[m] = x.sums + (first_x + m) * x.groups();
  }
  const int64_t ahead = R * task.w_stride;
  int64_t at = 0;
  for (; at + kUnit <= x.k; at += kUnit) {
    Codes one[4];  // a single row of x stays in registers for all rows of w
    if constexpr (M == 1) load_unit(codes_of_x[0], one);
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      const std::byte* unit = blocks[r];
      // The rows that follow: hardware does not see that streams this short continue there.
      const std::byte* next = unit + ahead;
#pragma GCC unroll 8
      for (int64_t line = 0; line < kUnitBytes; line += 64) __builtin_prefetch(next + line, 0, 0);
      float32x4_t w_scales = four_halves(unit, F::kBytes);
      Codes codes[4];
#pragma GCC unroll 4
      for (int i = 0; i < 4; ++i) codes[i] = F::raw(unit + i * F::kBytes, 0);
#pragma GCC unroll 8
      for (int m = 0; m < M; ++m) {
        if constexpr (M > 1) load_unit(codes_of_x[m], one);
        float32x4_t products = sums_of_four(dot_32(codes[0], one[0]), dot_32(codes[1], one[1]),
                                            dot_32(codes[2], one[2]), dot_32(codes[3], one[3]));
        sums[m][r] = vfmaq_f32(sums[m][r], products, vmulq_f32(w_scales, vld1q_f32(scales_of_x[m])));
        if constexpr (F::kOffset != 0) offsets[m][r] = vfmaq_f32(offsets[m][r], w_scales, vld1q_f32(sums_of_x[m]));
      }
      blocks[r] += kUnitBytes;
    }
#pragma GCC unroll 8
    for (int m = 0; m < M; ++m) {
      codes_of_x[m] += kUnit;
      scales_of_x[m] += 4;
      sums_of_x[m] += 4;
      // One register each: g++ otherwise derives all of them from one index again.
      asm("" : "+r"(codes_of_x[m]), "+r"(scales_of_x[m]), "+r"(sums_of_x[m]));
    }
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) asm("" : "+r"(blocks[r]));
  }
#pragma GCC unroll 8
  for (int m = 0; m < M; ++m)
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      float sum = vaddvq_f32(sums[m][r]) - static_cast<float>(F::kOffset) * vaddvq_f32(offsets[m][r]);
      task.sums[(first_x + m) * task.sums_stride + row + r] = sum + rest_of<F>(blocks[r], x, first_x + m, at);
    }
}

// The same for formats with blocks of 256, whose groups have whole numbers of steps as scales. x has one scale for a
// block, so that a block is a sum of integers, and one conversion. F has
//   unsigned_raw(block, g)   32 codes without their offset
//   steps(block)             of its 8 or 16 groups
//   unit(block), minimum_unit(block)
//                            what a step of a scale, or of a minimum, is
//   least(block, code_sums, steps)
//                            the sum over groups of minimum (or offset) times code sum, in four parts
template <class F, int M, int R>
FK_TARGET_DOT void blocks_of(const RowsTask& task, int64_t row, int64_t first_x) {
  const RoundedRows& x = *task.x;
  const std::byte* w = task.w + row * task.w_stride;
  float32x4_t sums[M][R];
#pragma GCC unroll 8
  for (int m = 0; m < M; ++m)
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) sums[m][r] = vdupq_n_f32(0);
  const std::byte* blocks[R];
  const int8_t* codes_of_x[M];
  const float* scales_of_x[M];
  const int16_t* sums_of_x[M];
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) blocks[r] = w + r * task.w_stride;
#pragma GCC unroll 8
  for (int m = 0; m < M; ++m) {
    codes_of_x[m] = x.codes + (first_x + m) * x.k;
    scales_of_x[m] = x.scales + (first_x + m) * x.groups();
    sums_of_x[m] = x.code_sums + (first_x + m) * 2 * x.groups();
  }
  for (int64_t at = 0; at < x.k; at += F::kElements) {
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      const std::byte* block = blocks[r];
#pragma GCC unroll 8
      for (int64_t line = 0; line < F::kBytes; line += 64) __builtin_prefetch(block + R * task.w_stride + line, 0, 0);
      auto steps = F::steps(block);
      float unit = F::unit(block), minimum_unit = F::minimum_unit(block);
#pragma GCC unroll 8
      for (int m = 0; m < M; ++m) {
        const int8_t* codes = codes_of_x[m];
        float scale = *scales_of_x[m];
        int32x4_t products = vdupq_n_s32(0);
#pragma GCC unroll 4
        for (int v = 0; v < F::kElements / F::kGroup / 4; ++v) {
          int32x4_t dots[4];
#pragma GCC unroll 4
          for (int i = 0; i < 4; ++i) {
            if constexpr (F::kGroup == 32) {
              dots[i] = dot_32(F::unsigned_raw(block, 4 * v + i), load_codes(codes + (4 * v + i) * 32));
            } else if (i % 2 == 0) {
              Codes a = F::unsigned_raw(block, 2 * v + i / 2), b = load_codes(codes + (2 * v + i / 2) * 32);
              dots[i] = vdotq_s32(vdupq_n_s32(0), a.low, b.low);
              dots[i + 1] = vdotq_s32(vdupq_n_s32(0), a.high, b.high);
            }
          }
          products = vmlaq_laneq_s32(products, dots[0], steps.vectors[v], 0);
          products = vmlaq_laneq_s32(products, dots[1], steps.vectors[v], 1);
          products = vmlaq_laneq_s32(products, dots[2], steps.vectors[v], 2);
          products = vmlaq_laneq_s32(products, dots[3], steps.vectors[v], 3);
        }
        int32x4_t least = F::least(block, sums_of_x[m], steps);
        sums[m][r] = vfmaq_n_f32(sums[m][r], vcvtq_f32_s32(products), unit * scale);
        sums[m][r] = vfmsq_n_f32(sums[m][r], vcvtq_f32_s32(least), minimum_unit * scale);
      }
      blocks[r] += F::kBytes;
      asm("" : "+r"(blocks[r]));
    }
#pragma GCC unroll 8
    for (int m = 0; m < M; ++m) {
      codes_of_x[m] += F::kElements;
      scales_of_x[m] += F::kElements / kRoundedGroup;
      sums_of_x[m] += F::kElements / 16;
      asm("" : "+r"(codes_of_x[m]), "+r"(scales_of_x[m]), "+r"(sums_of_x[m]));
    }
  }
#pragma GCC unroll 8
  for (int m = 0; m < M; ++m)
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) task.sums[(first_x + m) * task.sums_stride + row + r] = vaddvq_f32(sums[m][r]);
}

template <class F, int M>
FK_TARGET_DOT void rows_with(const RowsTask& task, int64_t first_x) {
  constexpr int kRows = 2;
  int64_t row = 0;
  if constexpr (F::kElements == 256) {
    for (; row + kRows <= task.rows; row += kRows) blocks_of<F, M, kRows>(task, row, first_x);
    for (; row < task.rows; ++row) blocks_of<F, M, 1>(task, row, first_x);
  } else {
    for (; row + kRows <= task.rows; row += kRows) rows_of<F, M, kRows>(task, row, first_x);
    for (; row < task.rows; ++row) rows_of<F, M, 1>(task, row, first_x);
  }
}

template <class F>
void rows(const RowsTask& task) {
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
