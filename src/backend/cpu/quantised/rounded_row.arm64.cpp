// Explicit vectors: g++ 12 takes twice as long with the plain loops.
#include "backend/cpu/quantised/rounded_row.h"

#include <bit>

#include "backend/cpu/neon_loads.arm64.h"
#include "backend/cpu/quantised/rounded_rows.h"

namespace fk {
namespace {

using neon::load8;

// The largest magnitude, as integers: positive floats have the same order, and a NaN is the largest.
template <class T>
float largest_of(const T* x, int64_t count) {
  const uint32x4_t mask = vdupq_n_u32(0x7fffffff);
  uint32x4_t largest = vdupq_n_u32(0);
  for (int64_t i = 0; i < count; i += 8) {
    float32x4x2_t v = load8(x + i);
    largest = vmaxq_u32(largest, vandq_u32(vreinterpretq_u32_f32(v.val[0]), mask));
    largest = vmaxq_u32(largest, vandq_u32(vreinterpretq_u32_f32(v.val[1]), mask));
  }
  return std::bit_cast<float>(vmaxvq_u32(largest));
}

// Adding 1.5 * 2^23 rounds to an integer, whose lowest byte is then that of the float.
template <class T>
int8x16_t sixteen_codes(const T* x, float steps) {
  const float32x4_t round = vdupq_n_f32(0x1.8p23f);
  float32x4x2_t a = load8(x), b = load8(x + 8);
  auto low_halves = [&](const float32x4x2_t& v) {
    return vuzp1q_u16(vreinterpretq_u16_f32(vfmaq_n_f32(round, v.val[0], steps)),
                      vreinterpretq_u16_f32(vfmaq_n_f32(round, v.val[1], steps)));
  };
  return vreinterpretq_s8_u8(vuzp1q_u8(vreinterpretq_u8_u16(low_halves(a)), vreinterpretq_u8_u16(low_halves(b))));
}

template <class T>
void round_body(const T* x, int64_t k, int64_t group, const RoundedRow& to) {
  float steps = 0, scale = 0;
  for (int64_t at = 0; at < k; at += kRoundedGroup) {
    if (at % group == 0) {
      float largest = largest_of(x + at, group);
      steps = largest < kSmallestRounded ? 0 : 127 / largest;
      // NaN and infinity make the scale so, and with it every output.
      scale = steps == 0 ? largest * 0 : largest / 127;
    }
    int8x16_t low = sixteen_codes(x + at, steps), high = sixteen_codes(x + at + 16, steps);
    vst1q_s8(to.codes + at, low);
    vst1q_s8(to.codes + at + 16, high);
    int16_t low_sum = vaddlvq_s8(low), high_sum = vaddlvq_s8(high);
    to.code_sums[at / 16] = low_sum;
    to.code_sums[at / 16 + 1] = high_sum;
    to.scales[at / kRoundedGroup] = scale;
    to.sums[at / kRoundedGroup] = scale * static_cast<float>(low_sum + high_sum);
  }
}

}  // namespace

void round_row(const bf16* x, int64_t k, int64_t group, const RoundedRow& to) { round_body(x, k, group, to); }
void round_row(const f16* x, int64_t k, int64_t group, const RoundedRow& to) { round_body(x, k, group, to); }
void round_row(const float* x, int64_t k, int64_t group, const RoundedRow& to) { round_body(x, k, group, to); }

}  // namespace fk
