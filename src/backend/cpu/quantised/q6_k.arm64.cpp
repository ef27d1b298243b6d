// NEON kernels of Q6_K; its layout is in ops/formats/q6_k.cpp.
#include "backend/cpu/quantised/neon_format.arm64.h"

namespace fk::neon {
namespace {

struct Q6_K {
  static constexpr int64_t kElements = 256, kBytes = 210, kGroup = 16;
  static constexpr bool kMinimums = false;
  static constexpr int kOffset = 0;

  FK_INLINE_DOT static Codes raw(const std::byte* block, int64_t g) {
    Codes codes = unsigned_raw(block, g);
    return {vsubq_s8(codes.low, vdupq_n_s8(32)), vsubq_s8(codes.high, vdupq_n_s8(32))};
  }
  FK_INLINE_DOT static Codes unsigned_raw(const std::byte* block, int64_t g) {
    const std::byte* low = block + g / 4 * 64 + g % 2 * 32;
    const std::byte* upper = block + 128 + g / 4 * 32;
    return {codes(load_bytes(low), load_bytes(upper), g % 4),
            codes(load_bytes(low + 16), load_bytes(upper + 16), g % 4)};
  }

  struct Steps {
    int32x4_t vectors[4];
    int16x8_t halves[2];
  };
  FK_INLINE_DOT static Steps steps(const std::byte* block) {
    int8x16_t bytes = vreinterpretq_s8_u8(load_bytes(block + 192));
    int16x8_t a = vmovl_s8(vget_low_s8(bytes)), b = vmovl_high_s8(bytes);
    return {{vmovl_s16(vget_low_s16(a)), vmovl_high_s16(a), vmovl_s16(vget_low_s16(b)), vmovl_high_s16(b)}, {a, b}};
  }
  FK_INLINE_DOT static float unit(const std::byte* block) { return half_at(block + 208); }
  // Every code has 32 subtracted.
  FK_INLINE_DOT static float minimum_unit(const std::byte* block) { return 32 * unit(block); }
  FK_INLINE_DOT static int32x4_t least(const std::byte*, const int16_t* code_sums, const Steps& steps) {
    int16x8_t a = vld1q_s16(code_sums), b = vld1q_s16(code_sums + 8);
    int32x4_t sum = vmull_s16(vget_low_s16(a), vget_low_s16(steps.halves[0]));
    sum = vmlal_high_s16(sum, a, steps.halves[0]);
    sum = vmlal_s16(sum, vget_low_s16(b), vget_low_s16(steps.halves[1]));
    return vmlal_high_s16(sum, b, steps.halves[1]);
  }

  FK_INLINE_DOT static void scales(const std::byte* block, float* scales, float*) {
    Steps all = steps(block);
#pragma GCC unroll 4
    for (int v = 0; v < 4; ++v) vst1q_f32(scales + 4 * v, vmulq_n_f32(vcvtq_f32_s32(all.vectors[v]), unit(block)));
  }

 private:
  FK_INLINE_DOT static int8x16_t codes(uint8x16_t low, uint8x16_t upper, int64_t quarter) {
    uint8x16_t four = quarter < 2 ? vandq_u8(low, vdupq_n_u8(15)) : vshrq_n_u8(low, 4);
    uint8x16_t mask = vdupq_n_u8(0x30);
    uint8x16_t two = quarter == 0   ? vandq_u8(vshlq_n_u8(upper, 4), mask)
                     : quarter == 1 ? vandq_u8(vshlq_n_u8(upper, 2), mask)
                     : quarter == 2 ? vandq_u8(upper, mask)
                                    : vandq_u8(vshrq_n_u8(upper, 2), mask);
    return vreinterpretq_s8_u8(vorrq_u8(four, two));
  }
};

const RegisterNeonFormat kNeonQ6_K(kernels_of<Q6_K>("q6_k"));

}  // namespace
}  // namespace fk::neon
