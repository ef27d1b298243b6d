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

  struct Steps {
    int32x4_t vectors[2];
    uint64_t minimums;
  };
  // Twelve bytes as three words: the steps of four groups at a time are the bytes of a word.
  FK_INLINE_DOT static Steps steps(const std::byte* block) {
    uint32_t words[3];
    std::memcpy(words, block + 4, sizeof words);
    uint64_t scales = (words[0] & 0x3f3f3f3fu) |
                      static_cast<uint64_t>((words[2] & 0x0f0f0f0fu) | (words[0] >> 2 & 0x30303030u)) << 32;
    uint64_t minimums = (words[1] & 0x3f3f3f3fu) |
                        static_cast<uint64_t>((words[2] >> 4 & 0x0f0f0f0fu) | (words[1] >> 2 & 0x30303030u)) << 32;
    int16x8_t wide = widened(scales);
    return {{vmovl_s16(vget_low_s16(wide)), vmovl_s16(vget_high_s16(wide))}, minimums};
  }
  FK_INLINE_DOT static float unit(const std::byte* block) { return half_at(block); }
  FK_INLINE_DOT static float minimum_unit(const std::byte* block) { return half_at(block + 2); }
  FK_INLINE_DOT static Codes unsigned_raw(const std::byte* block, int64_t g) { return raw(block, g); }
  FK_INLINE_DOT static int32x4_t least(const std::byte*, const int16_t* code_sums, const Steps& steps) {
    int16x8_t sums = vpaddq_s16(vld1q_s16(code_sums), vld1q_s16(code_sums + 8)), minimums = widened(steps.minimums);
    return vmlal_high_s16(vmull_s16(vget_low_s16(sums), vget_low_s16(minimums)), sums, minimums);
  }

  FK_INLINE_DOT static void scales(const std::byte* block, float* scales, float* minimums) {
    Steps all = steps(block);
    int16x8_t wide = widened(all.minimums);
    vst1q_f32(scales, vmulq_n_f32(vcvtq_f32_s32(all.vectors[0]), unit(block)));
    vst1q_f32(scales + 4, vmulq_n_f32(vcvtq_f32_s32(all.vectors[1]), unit(block)));
    vst1q_f32(minimums, vmulq_n_f32(vcvtq_f32_s32(vmovl_s16(vget_low_s16(wide))), minimum_unit(block)));
    vst1q_f32(minimums + 4, vmulq_n_f32(vcvtq_f32_s32(vmovl_s16(vget_high_s16(wide))), minimum_unit(block)));
  }

 private:
  FK_INLINE_DOT static int16x8_t widened(uint64_t bytes) { return vreinterpretq_s16_u16(vmovl_u8(vcreate_u8(bytes))); }
};

const RegisterNeonFormat kNeonQ4_K(kernels_of<Q4_K>("q4_k"));

}  // namespace
}  // namespace fk::neon
