// A panel times a row of x, for formats whose block is one group of 32 codes with one scale: Q8_0, Q4_0. F has
//   kOffset              codes are those of add_codes() less this
//   add_codes(products, block, x)
//                        products += the codes of a block times the 32 of x
#pragma once

#include "backend/cpu/quantised/neon_format.arm64.h"

namespace fk::neon {

struct Codes32 {
  int8x16_t low, high;
};

template <class F, bool kAhead>
FK_TARGET_DOT void multiply_blocks_of_32(const MultiplyPanelTask& task) {
  static_assert(F::kElements == kRoundedGroup && F::kGroup == kRoundedGroup);
  const RoundedRows& x = *task.x;
  const std::byte* block = task.panel;
  const int8_t* codes = x.codes + task.token * x.k;
  const float* scales = x.scales + task.token * x.groups();
  const int16_t* code_sums = x.code_sums + task.token * 2 * x.groups();
  float32x4_t zero = vreinterpretq_f32_s32(vdupq_n_s32(kZeroBits));
  FloatSums sums{vdupq_n_f32(0), vdupq_n_f32(0)};
#pragma GCC unroll 2
  for (int64_t groups = x.groups(); groups > 0; --groups) {
    if constexpr (kAhead) prefetch_ahead<kPanelRows * F::kBytes>(block);
    Sums products = starting_at(kZeroSums);
    F::add_codes(products, block, {vld1q_s8(codes), vld1q_s8(codes + 16)});
    if constexpr (F::kOffset != 0)
      zero = vreinterpretq_f32_s32(vdupq_n_s32(kZeroBits + F::kOffset * (code_sums[0] + code_sums[1])));
    FloatSums w_scales = load_halves(block);
    sums.upper = vfmaq_f32(sums.upper, vsubq_f32(vreinterpretq_f32_s32(products.upper), zero),
                           vmulq_n_f32(w_scales.upper, *scales));
    sums.lower = vfmaq_f32(sums.lower, vsubq_f32(vreinterpretq_f32_s32(products.lower), zero),
                           vmulq_n_f32(w_scales.lower, *scales));
    block += kPanelRows * F::kBytes;
    codes += kRoundedGroup;
    scales += 1;
    code_sums += 2;
    // One register each: g++ otherwise derives all of them from one index.
    asm("" : "+r"(block), "+r"(codes), "+r"(scales), "+r"(code_sums));
  }
  store(task.sums, sums);
}

}  // namespace fk::neon
