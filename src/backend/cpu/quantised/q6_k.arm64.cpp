// NEON kernels of Q6_K; its layout is in ops/formats/q6_k.cpp.
#include "backend/cpu/quantised/neon_format.arm64.h"

namespace fk::neon {
namespace {

struct Q6_K {
  static constexpr int64_t kElements = 256, kBytes = 210, kGroup = 16;
  static constexpr bool kMinimums = false;
  static constexpr int kOffset = 0;

  FK_INLINE_DOT static Codes raw(const std::byte* block, int64_t g) {
    const std::byte* low = block + g / 4 * 64 + g % 2 * 32;
    const std::byte* upper = block + 128 + g / 4 * 32;
    return {codes(load_bytes(low), load_bytes(upper), g % 4),
            codes(load_bytes(low + 16), load_bytes(upper + 16), g % 4)};
  }

  FK_INLINE_DOT static void scales(const std::byte* block, float* scales, float*) {
    UnitScales<4> unit = unit_scales(block);
#pragma GCC unroll 4
    for (int v = 0; v < 4; ++v) vst1q_f32(scales + 4 * v, unit.scales[v]);
  }

  static constexpr int64_t kUnit = kElements;
  FK_INLINE_DOT static Codes unit_raw(const std::byte* unit, int64_t g) { return raw(unit, g); }
  FK_INLINE_DOT static UnitScales<4> unit_scales(const std::byte* unit) {
    int8x16_t steps = vreinterpretq_s8_u8(load_bytes(unit + 192));
    float scale = half_at(unit + 208);
    int16x8_t a = vmovl_s8(vget_low_s8(steps)), b = vmovl_s8(vget_high_s8(steps));
    UnitScales<4> found;
    found.scales[0] = vmulq_n_f32(vcvtq_f32_s32(vmovl_s16(vget_low_s16(a))), scale);
    found.scales[1] = vmulq_n_f32(vcvtq_f32_s32(vmovl_s16(vget_high_s16(a))), scale);
    found.scales[2] = vmulq_n_f32(vcvtq_f32_s32(vmovl_s16(vget_low_s16(b))), scale);
    found.scales[3] = vmulq_n_f32(vcvtq_f32_s32(vmovl_s16(vget_high_s16(b))), scale);
    return found;
  }

 private:
  FK_INLINE_DOT static int8x16_t codes(uint8x16_t low, uint8x16_t upper, int64_t quarter) {
    uint8x16_t four = quarter < 2 ? vandq_u8(low, vdupq_n_u8(15)) : vshrq_n_u8(low, 4);
    uint8x16_t mask = vdupq_n_u8(0x30);
    uint8x16_t two = quarter == 0   ? vandq_u8(vshlq_n_u8(upper, 4), mask)
                     : quarter == 1 ? vandq_u8(vshlq_n_u8(upper, 2), mask)
                     : quarter == 2 ? vandq_u8(upper, mask)
                                    : vandq_u8(vshrq_n_u8(upper, 2), mask);
    return vsubq_s8(vreinterpretq_s8_u8(vorrq_u8(four, two)), vdupq_n_s8(32));
  }
};

const RegisterNeonFormat kNeonQ6_K(kernels_of<Q6_K>("q6_k"));

}  // namespace
}  // namespace fk::neon
