// NEON kernels of Q4_K; its layout is in ops/formats/q4_k.cpp.
#include "backend/cpu/quantised/neon_format.arm64.h"

namespace fk::neon {
namespace {

struct Q4_K {
  static constexpr int64_t kElements = 256, kBytes = 144, kGroup = 32;
  static constexpr bool kMinimums = true;
  static constexpr int kOffset = 0;

  FK_INLINE_DOT static Codes raw(const std::byte* block, int64_t g) {
    const std::byte* pairs = block + 16 + g / 2 * 32;
    uint8x16_t a = load_bytes(pairs), b = load_bytes(pairs + 16);
    if (g % 2 == 0)
      return {vreinterpretq_s8_u8(vandq_u8(a, vdupq_n_u8(15))), vreinterpretq_s8_u8(vandq_u8(b, vdupq_n_u8(15)))};
    return {vreinterpretq_s8_u8(vshrq_n_u8(a, 4)), vreinterpretq_s8_u8(vshrq_n_u8(b, 4))};
  }

  FK_INLINE_DOT static void scales(const std::byte* block, float* scales, float* minimums) {
    UnitScales<2> unit = unit_scales(block);
#pragma GCC unroll 2
    for (int v = 0; v < 2; ++v) {
      vst1q_f32(scales + 4 * v, unit.scales[v]);
      vst1q_f32(minimums + 4 * v, unit.minimums[v]);
    }
  }

  static constexpr int64_t kUnit = kElements;
  FK_INLINE_DOT static Codes unit_raw(const std::byte* unit, int64_t g) { return raw(unit, g); }
  // Twelve bytes as three words: the steps of four groups at a time are the bytes of a word.
  FK_INLINE_DOT static UnitScales<2> unit_scales(const std::byte* unit) {
    uint32_t words[3];
    std::memcpy(words, unit + 4, sizeof words);
    float scale = half_at(unit), minimum = half_at(unit + 2);
    uint32_t later_scales = (words[2] & 0x0f0f0f0fu) | (words[0] >> 2 & 0x30303030u);
    uint32_t later_minimums = (words[2] >> 4 & 0x0f0f0f0fu) | (words[1] >> 2 & 0x30303030u);
    return {{steps(words[0] & 0x3f3f3f3fu, scale), steps(later_scales, scale)},
            {steps(words[1] & 0x3f3f3f3fu, minimum), steps(later_minimums, minimum)}};
  }

 private:
  FK_INLINE_DOT static float32x4_t steps(uint32_t bytes, float unit) {
    uint16x8_t wide = vmovl_u8(vcreate_u8(bytes));
    return vmulq_n_f32(vcvtq_f32_u32(vmovl_u16(vget_low_u16(wide))), unit);
  }
};

const RegisterNeonFormat kNeonQ4_K(kernels_of<Q4_K>("q4_k"));

}  // namespace
}  // namespace fk::neon
