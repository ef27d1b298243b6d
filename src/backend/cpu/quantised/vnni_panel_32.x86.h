// Formats whose block is one group of 32 codes with one scale: Q8_0, Q4_0. A packed block begins with sixteen scales. F
// has
//   kBytes, pack()       as vnni_format.x86.h says
//   kOffset              codes are those of words() less this
//   words(codes, of)     the eight words of a block, from its codes on
//   add_codes<M>(dots, codes, x)
//                        dots[m] += the codes of a block times the 32 of row m of x
#pragma once

#include "backend/cpu/quantised/vnni_format.x86.h"

namespace fk::vnni {

template <class F>
struct BlocksOf32 {
  static constexpr int64_t kElements = 32, kCodesAt = 32;
  static constexpr int kMostRows = 8;

  template <int M>
  FK_VNNI_INLINE static void multiply(const std::byte* block, const RoundedRows& x, int64_t token, int64_t at,
                                      __m512 (&sums)[M]) {
    static_assert(kElements == kRoundedGroup);
    const int64_t groups = x.groups(), group = token * groups + at / kElements;
    if constexpr (M == 1) prefetch_ahead<kPanelRows * F::kBytes>(block);
    __m512i dots[M];
#pragma GCC unroll 8
    for (int m = 0; m < M; ++m) {
      const int16_t* sum = x.code_sums + (group + m * groups) * 2;
      dots[m] = _mm512_set1_epi32(-F::kOffset * (sum[0] + sum[1]));
    }
    F::template add_codes<M>(dots, block + kCodesAt, {x.codes + token * x.k + at, x.k});
    const __m512 w_scales = load_halves(block);
#pragma GCC unroll 8
    for (int m = 0; m < M; ++m)
      sums[m] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(dots[m]),
                                _mm512_mul_ps(w_scales, _mm512_set1_ps(x.scales[group + m * groups])), sums[m]);
  }

  FK_VNNI_INLINE static Widened widen(const std::byte* panel, int64_t at) {
    const std::byte* block = panel + at / kElements * kPanelRows * F::kBytes;
    Widened w;
    F::words(block + kCodesAt, w.words);
    w.scales[0] = w.scales[1] = load_halves(block);
    w.shifts[0] = w.shifts[1] = _mm512_mul_ps(w.scales[0], _mm512_set1_ps(-F::kOffset));
    return w;
  }
};

}  // namespace fk::vnni
