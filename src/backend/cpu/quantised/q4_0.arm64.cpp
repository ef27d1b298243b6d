// NEON kernels of Q4_0; its layout is in ops/formats/q4_0.cpp. Packed: 8 scales, then 4 words of each row; word i has
// the codes 4 i to 4 i + 3 in its low halves and those that are 16 further in its upper halves.
#include "backend/cpu/quantised/neon_panel_32.arm64.h"

namespace fk::neon {
namespace {

struct Q4_0 {
  static constexpr int64_t kElements = 32, kBytes = 18, kGroup = 32;
  static constexpr int64_t kCodesAt = 16;
  static constexpr int kOffset = 8;

  FK_INLINE_DOT static void pack(const EightRows& rows, std::byte* panel) {
    pack_pieces<2>(rows, 0, 1, panel);
    pack_words(rows, 2, 4, panel + kCodesAt);
  }
  FK_INLINE_DOT static void unpack(const std::byte* panel, int8_t* codes, float* scales, float*) {
    store(scales, load_halves(panel));
    const int8x16_t offset = vdupq_n_s8(kOffset);
    for (int64_t i = 0; i < 8; ++i) {
      uint8x16_t pairs = load_bytes(panel + kCodesAt + i * 16);
      vst1q_s8(codes + i * 16, vsubq_s8(low_halves(pairs), offset));
      vst1q_s8(codes + 128 + i * 16, vsubq_s8(upper_halves(pairs), offset));
    }
  }
  FK_INLINE_DOT static void add_codes(Sums& products, const std::byte* block, Codes32 x) {
    add_pairs<0>(products, block + kCodesAt, x);
    add_pairs<1>(products, block + kCodesAt + 32, x);
    add_pairs<2>(products, block + kCodesAt + 64, x);
    add_pairs<3>(products, block + kCodesAt + 96, x);
  }
  template <bool kAhead>
  static constexpr auto multiply = multiply_blocks_of_32<Q4_0, kAhead>;

 private:
  template <int kWord>
  FK_INLINE_DOT static void add_pairs(Sums& sums, const std::byte* words, Codes32 x) {
    uint8x16_t upper = load_bytes(words), lower = load_bytes(words + 16);
    add_word<kWord>(sums, low_halves(upper), low_halves(lower), x.low);
    add_word<kWord>(sums, upper_halves(upper), upper_halves(lower), x.high);
  }
};

const RegisterNeonFormat kNeonQ4_0(kernels_of<Q4_0>("q4_0"));

}  // namespace
}  // namespace fk::neon
