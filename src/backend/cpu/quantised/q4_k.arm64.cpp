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

  // Twelve bytes as three words: the steps of four groups at a time are bytes of a word.
  FK_INLINE_DOT static void scales(const std::byte* block, float* scales, float* minimums) {
    uint32_t words[3];
    std::memcpy(words, block + 4, sizeof words);
    uint64_t scale_steps = (words[0] & 0x3f3f3f3fu) |
                           static_cast<uint64_t>((words[2] & 0x0f0f0f0fu) | (words[0] >> 2 & 0x30303030u)) << 32;
    uint64_t minimum_steps = (words[1] & 0x3f3f3f3fu) |
                             static_cast<uint64_t>((words[2] >> 4 & 0x0f0f0f0fu) | (words[1] >> 2 & 0x30303030u)) << 32;
    store_steps(scale_steps, half_at(block), scales);
    store_steps(minimum_steps, half_at(block + 2), minimums);
  }

 private:
  FK_INLINE_DOT static void store_steps(uint64_t steps, float unit, float* to) {
    uint16x8_t wide = vmovl_u8(vcreate_u8(steps));
    vst1q_f32(to, vmulq_n_f32(vcvtq_f32_u32(vmovl_u16(vget_low_u16(wide))), unit));
    vst1q_f32(to + 4, vmulq_n_f32(vcvtq_f32_u32(vmovl_u16(vget_high_u16(wide))), unit));
  }
};

const RegisterNeonFormat kNeonQ4_K(kernels_of<Q4_K>("q4_k"));

}  // namespace
}  // namespace fk::neon
