// NEON kernels of Q8_0; its layout is in ops/formats/q8_0.cpp.
#include "backend/cpu/quantised/neon_format.arm64.h"

namespace fk::neon {
namespace {

struct Q8_0 {
  static constexpr int64_t kElements = 32, kBytes = 34, kGroup = 32;
  static constexpr bool kMinimums = false;
  static constexpr int kOffset = 0;

  FK_INLINE_DOT static Codes raw(const std::byte* block, int64_t) {
    return {vreinterpretq_s8_u8(load_bytes(block + 2)), vreinterpretq_s8_u8(load_bytes(block + 18))};
  }
  FK_INLINE_DOT static void scales(const std::byte* block, float* scales, float*) { scales[0] = half_at(block); }
};

const RegisterNeonFormat kNeonQ8_0(kernels_of<Q8_0>("q8_0"));

}  // namespace
}  // namespace fk::neon
