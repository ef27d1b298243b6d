// The NEON kernels of a weight format, from a struct that has, for a block of eight packed rows,
//
//   kElements, kBytes   of a block of one row
//   kGroup              codes that share a scale: 32 or 16
//   pack(rows, panel)   the blocks of eight rows as one of the panel
//   unpack(panel, codes, scales, minimums)
//                       of one block of a panel
//   multiply<kAhead>(task)
//                       a whole panel; with kAhead, prefetch_ahead() is called for its parts
//
// Decoding is limited by the number of vector instructions, of which a Neoverse-N1 starts two in a cycle. Loads have
// ports of their own, so constants are loaded: a move between registers takes the time of a product. Some instructions
// take the time of two (SCVTF, FCVTL, MLA with 4 words) or run in one of the two pipes only (shifts).
#pragma once

#include <arm_neon.h>

#include <bit>
#include <cstring>

#include "backend/cpu/quantised/neon_kernels.arm64.h"

// Attributes, not compiler flags for the file: inline functions of headers still run on CPUs without SDOT.
#define FK_TARGET_DOT __attribute__((target("arch=armv8.2-a+dotprod")))
#define FK_INLINE_DOT FK_TARGET_DOT inline __attribute__((always_inline))

namespace fk::neon {

// Eight rows, four in each.
struct Sums {
  int32x4_t upper, lower;
};
struct FloatSums {
  float32x4_t upper, lower;
};

// As long as a sum is below 2^22, the bits of 1.5 * 2^23 plus the sum are those of the float 1.5 * 2^23 + sum, and a
// subtraction converts it.
inline constexpr int32_t kZeroBits = 0x4b400000;
alignas(16) inline constexpr int32_t kZeroSums[4] = {kZeroBits, kZeroBits, kZeroBits, kZeroBits};
alignas(16) inline constexpr int32_t kNothing[4] = {};

// A vector from memory, each time: the compiler would keep a constant in a register, and copy it.
template <class Vector>
FK_INLINE_DOT Vector load_again(const void* address) {
  Vector vector;
  asm volatile("ldr %q0, %1" : "=w"(vector) : "Q"(*static_cast<const uint8_t(*)[16]>(address)));
  return vector;
}
FK_INLINE_DOT Sums starting_at(const int32_t (&constant)[4]) {
  return {load_again<int32x4_t>(constant), load_again<int32x4_t>(constant)};
}

FK_INLINE_DOT uint8x16_t load_bytes(const std::byte* address) {
  return vld1q_u8(reinterpret_cast<const uint8_t*>(address));
}
FK_INLINE_DOT int8x16_t as_signed(uint8x16_t bytes) { return vreinterpretq_s8_u8(bytes); }
FK_INLINE_DOT int8x16_t low_halves(uint8x16_t bytes) { return as_signed(vandq_u8(bytes, vdupq_n_u8(15))); }
FK_INLINE_DOT int8x16_t upper_halves(uint8x16_t bytes) { return as_signed(vshrq_n_u8(bytes, 4)); }

FK_INLINE_DOT FloatSums load_halves(const std::byte* address) {
  float16x8_t halves = vreinterpretq_f16_u8(load_bytes(address));
  return {vcvt_f32_f16(vget_low_f16(halves)), vcvt_high_f32_f16(halves)};
}

// sums += words of eight rows times word kLane of x
template <int kLane>
FK_INLINE_DOT void add_word(Sums& sums, int8x16_t upper, int8x16_t lower, int8x16_t x) {
  sums.upper = vdotq_laneq_s32(sums.upper, upper, x, kLane);
  sums.lower = vdotq_laneq_s32(sums.lower, lower, x, kLane);
}

// sums += products * factors, of four-byte integers
FK_INLINE_DOT void add_products(Sums& sums, const Sums& products, int16x8_t factors) {
  sums.upper = vmlaq_s32(sums.upper, products.upper, vmovl_s16(vget_low_s16(factors)));
  sums.lower = vmlaq_s32(sums.lower, products.lower, vmovl_high_s16(factors));
}
// sums += a * b
FK_INLINE_DOT void add_products(Sums& sums, int16x8_t a, int16_t b) {
  sums.upper = vmlal_n_s16(sums.upper, vget_low_s16(a), b);
  sums.lower = vmlal_high_n_s16(sums.lower, a, b);
}
// sums += integers * units * scale
FK_INLINE_DOT void add_scaled(FloatSums& sums, const Sums& integers, const FloatSums& units, float scale) {
  sums.upper = vfmaq_f32(sums.upper, vcvtq_f32_s32(integers.upper), vmulq_n_f32(units.upper, scale));
  sums.lower = vfmaq_f32(sums.lower, vcvtq_f32_s32(integers.lower), vmulq_n_f32(units.lower, scale));
}

// Into the L2 cache: 8 KiB are what a core reads in a quarter of a microsecond.
template <int64_t kBytes>
FK_INLINE_DOT void prefetch_ahead(const std::byte* block) {
  constexpr int64_t kDistance = 8192 + 64;
#pragma GCC unroll 32
  for (int64_t line = 0; line < kBytes; line += 64) __builtin_prefetch(block + kDistance + line, 0, 2);
}

FK_INLINE_DOT void store(float* to, const FloatSums& sums) {
  vst1q_f32(to, sums.upper);
  vst1q_f32(to + 4, sums.lower);
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

using EightRows = const std::byte* [kPanelRows];

// Words of each row from byte `at` on: word i of row r goes to panel + i * stride + 4 r. count: a multiple of four.
FK_INLINE_DOT void pack_words(const EightRows& rows, int64_t at, int64_t count, std::byte* panel, int64_t stride = 32) {
  for (int64_t i = 0; i < count; i += 4)
    for (int64_t four = 0; four < 2; ++four) {
      int8x16_t words[4];
#pragma GCC unroll 4
      for (int64_t r = 0; r < 4; ++r) words[r] = as_signed(load_bytes(rows[4 * four + r] + at + 4 * i));
      store_transposed(words, reinterpret_cast<int8_t*>(panel + i * stride + 16 * four), stride);
    }
}
// Likewise pieces of 1 or 2 bytes.
template <int64_t kSize>
FK_INLINE_DOT void pack_pieces(const EightRows& rows, int64_t at, int64_t count, std::byte* panel) {
  for (int64_t i = 0; i < count; ++i)
    for (int64_t r = 0; r < kPanelRows; ++r)
      std::memcpy(panel + (i * kPanelRows + r) * kSize, rows[r] + at + i * kSize, kSize);
}

template <class F>
FK_TARGET_DOT void pack_panel(const PackPanelTask& task) {
  static constexpr std::byte kZeroBlock[F::kBytes] = {};
  for (int64_t block = 0; block * F::kElements < task.k; ++block) {
    EightRows rows;
    for (int64_t r = 0; r < kPanelRows; ++r)
      rows[r] = r < task.rows ? task.w + r * task.w_stride + block * F::kBytes : kZeroBlock;
    F::pack(rows, task.panel + block * kPanelRows * F::kBytes);
  }
}

template <class F>
FK_TARGET_DOT void unpack_panel(const UnpackPanelTask& task) {
  for (int64_t block = 0; block * F::kElements < task.k; ++block) {
    int64_t first_scale = block * (F::kElements / F::kGroup) * kPanelRows;
    F::unpack(task.panel + block * kPanelRows * F::kBytes,
              task.codes == nullptr ? nullptr : task.codes + block * F::kElements * kPanelRows,
              task.scales + first_scale, task.minimums + first_scale);
  }
}

template <class F>
NeonFormat kernels_of(std::string_view name, int64_t codes_at = -1) {
  return {name, pack_panel<F>, F::template multiply<false>, F::template multiply<true>, unpack_panel<F>, codes_at};
}

}  // namespace fk::neon
