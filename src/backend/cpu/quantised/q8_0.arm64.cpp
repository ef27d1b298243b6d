// NEON kernels of Q8_0; its layout is in ops/formats/q8_0.cpp. Packed: 8 scales, then 8 words of each row.
#include "backend/cpu/quantised/neon_panel_32.arm64.h"

namespace fk::neon {
namespace {

struct Q8_0 {
  static constexpr int64_t kElements = 32, kBytes = 34, kGroup = 32;
  static constexpr int64_t kCodesAt = 16;
  static constexpr int kOffset = 0;

  FK_INLINE_DOT static void pack(const EightRows& rows, std::byte* panel) {
    pack_pieces<2>(rows, 0, 1, panel);
    pack_words(rows, 2, 8, panel + kCodesAt);
  }
  FK_INLINE_DOT static void unpack(const std::byte* panel, int8_t* codes, float* scales, float*) {
    store(scales, load_halves(panel));
    if (codes != nullptr) std::memcpy(codes, panel + kCodesAt, kElements * kPanelRows);
  }
  FK_INLINE_DOT static void add_codes(Sums& products, const std::byte* block, Codes32 x) {
    add_four(products, block + kCodesAt, x.low);
    add_four(products, block + kCodesAt + 128, x.high);
  }
  template <bool kAhead>
  static constexpr auto multiply = multiply_blocks_of_32<Q8_0, kAhead>;

 private:
  FK_INLINE_DOT static void add_four(Sums& sums, const std::byte* words, int8x16_t x) {
    add_word<0>(sums, as_signed(load_bytes(words)), as_signed(load_bytes(words + 16)), x);
    add_word<1>(sums, as_signed(load_bytes(words + 32)), as_signed(load_bytes(words + 48)), x);
    add_word<2>(sums, as_signed(load_bytes(words + 64)), as_signed(load_bytes(words + 80)), x);
    add_word<3>(sums, as_signed(load_bytes(words + 96)), as_signed(load_bytes(words + 112)), x);
  }
};

const RegisterNeonFormat kNeonQ8_0(kernels_of<Q8_0>("q8_0", Q8_0::kCodesAt));

}  // namespace
}  // namespace fk::neon
