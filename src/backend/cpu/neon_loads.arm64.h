// Eight elements of any float type as two vectors of f32.
#pragma once

#include <arm_neon.h>

#include "core/dtype.h"

namespace fk::neon {

inline float32x4x2_t load8(const float* x) { return {vld1q_f32(x), vld1q_f32(x + 4)}; }
// A bf16 is the upper half of the f32 with the same value. ZIP with zeros runs in both vector pipes of a Neoverse-N1, a
// shift in one only.
inline float32x4x2_t load8(const bf16* x) {
  uint16x8_t bits = vld1q_u16(&x->bits), zero = vdupq_n_u16(0);
  return {vreinterpretq_f32_u16(vzip1q_u16(zero, bits)), vreinterpretq_f32_u16(vzip2q_u16(zero, bits))};
}
inline float32x4x2_t load8(const f16* x) {
  float16x8_t halves = vreinterpretq_f16_u16(vld1q_u16(&x->bits));
  return {vcvt_f32_f16(vget_low_f16(halves)), vcvt_high_f32_f16(halves)};
}

}  // namespace fk::neon
