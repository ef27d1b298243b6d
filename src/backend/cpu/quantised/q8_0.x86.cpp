// VNNI kernels of Q8_0; its layout is in ops/formats/q8_0.cpp. Packed: 16 scales, then 8 words of each row.
#include "backend/cpu/quantised/vnni_panel_32.x86.h"

namespace fk::vnni {
namespace {

struct Q8_0 : BlocksOf32<Q8_0> {
  static constexpr int64_t kBytes = 34;
  static constexpr int kOffset = 128;

  FK_VNNI_INLINE static void pack(const PanelBlocks& rows, std::byte* panel) {
    pack_pieces<2>(rows, 0, 1, panel);
    pack_words<8>(rows, 2, panel + kCodesAt, 64, INT8_MIN);
  }
  FK_VNNI_INLINE static void words(const std::byte* codes, __m512i (&of)[8]) {
#pragma GCC unroll 8
    for (int i = 0; i < 8; ++i) of[i] = load(codes + 64 * i);
  }
  template <int M>
  FK_VNNI_INLINE static void add_codes(__m512i (&dots)[M], const std::byte* codes, Codes x) {
#pragma GCC unroll 8
    for (int i = 0; i < 8; ++i) add_word(dots, load(codes + 64 * i), x, 4 * i);
  }
};

const RegisterVnniFormat kVnniQ8_0(kernels_of<Q8_0>("q8_0"));

}  // namespace
}  // namespace fk::vnni
