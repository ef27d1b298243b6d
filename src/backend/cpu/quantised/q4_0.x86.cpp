// VNNI kernels of Q4_0; its layout is in ops/formats/q4_0.cpp. Packed: 16 scales, then 4 words of each row; word i has
// the codes 4 i to 4 i + 3 in its low halves and those that are 16 further in its upper halves.
#include "backend/cpu/quantised/vnni_panel_32.x86.h"

namespace fk::vnni {
namespace {

struct Q4_0 : BlocksOf32<Q4_0> {
  static constexpr int64_t kBytes = 18;
  static constexpr int kOffset = 8;

  FK_VNNI_INLINE static void pack(const PanelBlocks& rows, std::byte* panel) {
    pack_pieces<2>(rows, 0, 1, panel);
    pack_words<4>(rows, 2, panel + kCodesAt);
  }
  FK_VNNI_INLINE static void words(const std::byte* codes, __m512i (&of)[8]) {
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      __m512i pairs = load(codes + 64 * i);
      of[i] = low_halves(pairs);
      of[4 + i] = upper_halves(pairs);
    }
  }
  template <int M>
  FK_VNNI_INLINE static void add_codes(__m512i (&dots)[M], const std::byte* codes, Codes x) {
    __m512i upper[M];  // two chains of products are half as long
#pragma GCC unroll 8
    for (int m = 0; m < M; ++m) upper[m] = _mm512_setzero_si512();
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      __m512i pairs = load(codes + 64 * i);
      add_word(dots, low_halves(pairs), x, 4 * i);
      add_word(upper, upper_halves(pairs), x, 16 + 4 * i);
    }
#pragma GCC unroll 8
    for (int m = 0; m < M; ++m) dots[m] = _mm512_add_epi32(dots[m], upper[m]);
  }
};

const RegisterVnniFormat kVnniQ4_0(kernels_of<Q4_0>("q4_0"));

}  // namespace
}  // namespace fk::vnni
