// VNNI kernels of Q6_K; its layout is in ops/formats/q6_k.cpp. Packed: 16 units, 16 scales of each row, then for each
// half of the block and each i from 0 to 7 three words of each row: the low halves of words i and i + 16 of that half,
// those of words i + 8 and i + 24, and the upper two bits of all four.
#include "backend/cpu/quantised/vnni_format.x86.h"

namespace fk::vnni {
namespace {

struct Q6_K {
  static constexpr int64_t kElements = 256, kBytes = 210;
  static constexpr int64_t kScalesAt = 32, kCodesAt = 288, kWordBytes = 192, kHalfBytes = 8 * kWordBytes;
  static constexpr int kOffset = 32, kMostRows = 4;

  FK_VNNI_INLINE static void pack(const PanelBlocks& rows, std::byte* panel) {
    pack_pieces<2>(rows, 208, 1, panel);
    pack_pieces<1>(rows, 192, 16, panel + kScalesAt);
    for (int64_t half = 0; half < 2; ++half) {
      std::byte* to = panel + kCodesAt + half * kHalfBytes;
      pack_words<8>(rows, half * 64, to, kWordBytes);
      pack_words<8>(rows, half * 64 + 32, to + 64, kWordBytes);
      pack_words<8>(rows, 128 + half * 32, to + 128, kWordBytes);
    }
  }

  template <int M>
  FK_VNNI_INLINE static void multiply(const std::byte* block, const RoundedRows& x, int64_t token, int64_t at,
                                      __m512 (&sums)[M]) {
    const int64_t groups = x.groups(), group = token * groups + at / kRoundedGroup;
    __m512 products[M];
    clear(products);
#pragma GCC unroll 4
    for (int part = 0; part < 4; ++part) {  // half of a half: four words of each of its quarters
      if constexpr (M == 1) prefetch_ahead<kPanelRows * kBytes / 4>(block + part * kPanelRows * kBytes / 4);
      const int half = part / 2, second = part % 2;
      const std::byte* words = block + kCodesAt + half * kHalfBytes + second * 4 * kWordBytes;
      const Codes codes{x.codes + token * x.k + at + half * 128 + second * 16, x.k};
      __m512i quarter[4][M];
#pragma GCC unroll 4
      for (int q = 0; q < 4; ++q)
#pragma GCC unroll 8
        for (int m = 0; m < M; ++m)
          quarter[q][m] =
              _mm512_set1_epi32(-kOffset * x.code_sums[(group + m * groups) * 2 + half * 8 + q * 2 + second]);
#pragma GCC unroll 4
      for (int i = 0; i < 4; ++i) {
        Quarters of = quarters(words + i * kWordBytes);
#pragma GCC unroll 4
        for (int q = 0; q < 4; ++q) add_word(quarter[q], of.codes[q], codes, q * 32 + 4 * i);
      }
#pragma GCC unroll 4
      for (int q = 0; q < 4; ++q) {
        const __m512 scale = signed_floats(load16(block + kScalesAt + (half * 8 + q * 2 + second) * kPanelRows));
#pragma GCC unroll 8
        for (int m = 0; m < M; ++m)
          products[m] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(quarter[q][m]), scale, products[m]);
      }
    }
    const __m512 units = load_halves(block);
#pragma GCC unroll 8
    for (int m = 0; m < M; ++m)
      sums[m] =
          _mm512_fmadd_ps(products[m], _mm512_mul_ps(units, _mm512_set1_ps(x.scales[group + m * groups])), sums[m]);
  }

  FK_VNNI_INLINE static Widened widen(const std::byte* panel, int64_t at) {
    const std::byte* block = panel + at / kElements * kPanelRows * kBytes;
    const int64_t half = at % kElements / 128, quarter = at % 128 / 32;
    Widened w;
#pragma GCC unroll 8
    for (int i = 0; i < 8; ++i) {
      Quarters of = quarters(block + kCodesAt + half * kHalfBytes + i * kWordBytes);
      w.words[i] = of.codes[quarter];
    }
#pragma GCC unroll 2
    for (int i = 0; i < 2; ++i) {
      const std::byte* steps = block + kScalesAt + (half * 8 + quarter * 2 + i) * kPanelRows;
      w.scales[i] = _mm512_mul_ps(signed_floats(load16(steps)), load_halves(block));
      w.shifts[i] = _mm512_mul_ps(w.scales[i], _mm512_set1_ps(-kOffset));
    }
    return w;
  }

 private:
  struct Quarters {
    __m512i codes[4];
  };
  FK_VNNI_INLINE static Quarters quarters(const std::byte* words) {
    const __m512i first = load(words), second = load(words + 64), upper = load(words + 128),
                  two = _mm512_set1_epi8(0x30);
    auto with = [&](__m512i low, __m512i shifted)
                    FK_VNNI { return _mm512_or_si512(low, _mm512_and_si512(shifted, two)); };
    return {{with(low_halves(first), _mm512_slli_epi16(upper, 4)),
             with(low_halves(second), _mm512_slli_epi16(upper, 2)), with(upper_halves(first), upper),
             with(upper_halves(second), _mm512_srli_epi16(upper, 2))}};
  }
};

const RegisterVnniFormat kVnniQ6_K(kernels_of<Q6_K>("q6_k"));

}  // namespace
}  // namespace fk::vnni
