// The tile of products with BFMMLA, for aarch64: 2x4 by 4x2 blocks of bf16, summed in f32.
#pragma once

#include <arm_neon.h>

#include <cstdint>

// Attributes, not compiler flags for a file: inline functions of headers still run on CPUs without these instructions.
#define FK_TARGET_BF16 __attribute__((target("arch=armv8.2-a+bf16")))

namespace fk {

using Bf16Bits = uint16_t;  // NEON loads do not accept struct bf16; its only member has this type

FK_TARGET_BF16 inline bfloat16x8_t load_bf16(const Bf16Bits* p) { return vreinterpretq_bf16_u16(vld1q_u16(p)); }

// c[8][8] (+)= eight packed rows times eight packed rows, both k long: [k / 4][8][4]. sums[i][j] holds rows 2i, 2i+1 and
// columns 2j, 2j+1 of c.
FK_TARGET_BF16 inline void bfmmla_tile(const Bf16Bits* x, const Bf16Bits* w, int64_t k, bool first, float* c) {
  float32x4_t sums[4][4] = {};
  if (!first) {
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i)
#pragma GCC unroll 4
      for (int j = 0; j < 4; ++j)
        sums[i][j] = vcombine_f32(vld1_f32(c + 16 * i + 2 * j), vld1_f32(c + 16 * i + 8 + 2 * j));
  }
  for (int64_t at = 0; at < k; at += 4, x += 32, w += 32) {
    bfloat16x8_t b[4];
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) b[j] = load_bf16(w + 8 * j);
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      bfloat16x8_t a = load_bf16(x + 8 * i);
#pragma GCC unroll 4
      for (int j = 0; j < 4; ++j) sums[i][j] = vbfmmlaq_f32(sums[i][j], a, b[j]);
    }
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) {
      vst1_f32(c + 16 * i + 2 * j, vget_low_f32(sums[i][j]));
      vst1_f32(c + 16 * i + 8 + 2 * j, vget_high_f32(sums[i][j]));
    }
  }
}

}  // namespace fk
