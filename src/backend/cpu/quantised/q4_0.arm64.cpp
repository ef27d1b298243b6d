// NEON kernels of Q4_0; its layout is in ops/formats/q4_0.cpp.
#include "backend/cpu/quantised/neon_format.arm64.h"

namespace fk::neon {
namespace {

struct Q4_0 {
  static constexpr int64_t kElements = 32, kBytes = 18, kGroup = 32;
  static constexpr bool kMinimums = false;
  static constexpr int kOffset = 8;

  FK_INLINE_DOT static Codes raw(const std::byte* block, int64_t) {
    uint8x16_t pairs = load_bytes(block + 2);
    return {vreinterpretq_s8_u8(vandq_u8(pairs, vdupq_n_u8(15))), vreinterpretq_s8_u8(vshrq_n_u8(pairs, 4))};
  }
  FK_INLINE_DOT static void scales(const std::byte* block, float* scales, float*) { scales[0] = half_at(block); }
};

const RegisterNeonFormat kNeonQ4_0(kernels_of<Q4_0>("q4_0"));

}  // namespace
}  // namespace fk::neon
