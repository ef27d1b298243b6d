// VNNI kernels of Q4_K; its layout is in ops/formats/q4_k.cpp. Packed: 16 units of scales, 16 units of minimums, the 12
// bytes of steps of each row, then 32 words of each row; words 8 p to 8 p + 7 have group 2 p in their low halves and
// group 2 p + 1 in their upper halves.
#include "backend/cpu/quantised/vnni_format.x86.h"

namespace fk::vnni {
namespace {

struct Q4_K {
  static constexpr int64_t kElements = 256, kBytes = 144;
  static constexpr int64_t kMinimumUnitsAt = 32, kStepsAt = 64, kCodesAt = 256;
  static constexpr int kMostRows = 4;

  FK_VNNI_INLINE static void pack(const PanelBlocks& rows, std::byte* panel) {
    pack_pieces<2>(rows, 0, 2, panel);
    pack_pieces<1>(rows, 4, 12, panel + kStepsAt);
    pack_words<16>(rows, 16, panel + kCodesAt);
    pack_words<16>(rows, 80, panel + kCodesAt + 1024);
  }

  template <int M>
  FK_VNNI_INLINE static void multiply(const std::byte* block, const RoundedRows& x, int64_t token, int64_t at,
                                      __m512 (&sums)[M]) {
    const int64_t groups = x.groups(), group = token * groups + at / kRoundedGroup;
    const int8_t* codes = x.codes + token * x.k + at;
    const Steps steps = steps_of(block);
    __m512 products[M], least[M];
    clear(products);
    clear(least);
#pragma GCC unroll 4
    for (int pair = 0; pair < 4; ++pair) {
      if constexpr (M == 1) prefetch_ahead<kPanelRows * kBytes / 4>(block + pair * kPanelRows * kBytes / 4);
      __m512i low[M], upper[M];
#pragma GCC unroll 8
      for (int m = 0; m < M; ++m) low[m] = upper[m] = _mm512_setzero_si512();
#pragma GCC unroll 8
      for (int i = 0; i < 8; ++i) {
        __m512i pairs = load(block + kCodesAt + (8 * pair + i) * 64);
        add_word(low, low_halves(pairs), {codes + 64 * pair, x.k}, 4 * i);
        add_word(upper, upper_halves(pairs), {codes + 64 * pair, x.k}, 32 + 4 * i);
      }
      const __m512 low_scale = steps.scale(2 * pair), upper_scale = steps.scale(2 * pair + 1),
                   low_minimum = steps.minimum(2 * pair), upper_minimum = steps.minimum(2 * pair + 1);
#pragma GCC unroll 8
      for (int m = 0; m < M; ++m) {
        const float* sum = x.sums + group + m * groups + 2 * pair;
        products[m] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(low[m]), low_scale, products[m]);
        products[m] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(upper[m]), upper_scale, products[m]);
        least[m] = _mm512_fmadd_ps(low_minimum, _mm512_set1_ps(sum[0]), least[m]);
        least[m] = _mm512_fmadd_ps(upper_minimum, _mm512_set1_ps(sum[1]), least[m]);
      }
    }
    const __m512 units = load_halves(block), minimum_units = load_halves(block + kMinimumUnitsAt);
#pragma GCC unroll 8
    for (int m = 0; m < M; ++m) {
      sums[m] =
          _mm512_fmadd_ps(products[m], _mm512_mul_ps(units, _mm512_set1_ps(x.scales[group + m * groups])), sums[m]);
      sums[m] = _mm512_fnmadd_ps(least[m], minimum_units, sums[m]);
    }
  }

  FK_VNNI_INLINE static Widened widen(const std::byte* panel, int64_t at) {
    const std::byte* block = panel + at / kElements * kPanelRows * kBytes;
    const int64_t group = at % kElements / kRoundedGroup;
    Widened w;
#pragma GCC unroll 8
    for (int i = 0; i < 8; ++i) {
      __m512i pairs = load(block + kCodesAt + (group / 2 * 8 + i) * 64);
      w.words[i] = group % 2 == 0 ? low_halves(pairs) : upper_halves(pairs);
    }
    Steps steps = steps_of(block);
    w.scales[0] = w.scales[1] = _mm512_mul_ps(steps.scale(group), load_halves(block));
    w.shifts[0] = w.shifts[1] =
        _mm512_sub_ps(_mm512_setzero_ps(), _mm512_mul_ps(steps.minimum(group), load_halves(block + kMinimumUnitsAt)));
    return w;
  }

 private:
  // 6-bit numbers of sixteen rows, for each of the eight groups.
  struct Steps {
    alignas(64) uint8_t scales[8 * kPanelRows], minimums[8 * kPanelRows];

    FK_VNNI_INLINE __m512 scale(int64_t group) const { return unsigned_floats(load16(scales + group * kPanelRows)); }
    FK_VNNI_INLINE __m512 minimum(int64_t group) const {
      return unsigned_floats(load16(minimums + group * kPanelRows));
    }
  };
  FK_VNNI_INLINE static Steps steps_of(const std::byte* block) {
    const __m512i a = load(block + kStepsAt), b = load(block + kStepsAt + 64), c = load(block + kStepsAt + 128),
                  six = _mm512_set1_epi8(0x3f), two = _mm512_set1_epi8(0x30);
    auto upper_two = [&](__m512i bytes) FK_VNNI { return _mm512_and_si512(_mm512_srli_epi16(bytes, 2), two); };
    Steps steps;
    _mm512_store_si512(steps.scales, _mm512_and_si512(a, six));
    _mm512_store_si512(steps.minimums, _mm512_and_si512(b, six));
    _mm512_store_si512(steps.scales + 64, _mm512_or_si512(low_halves(c), upper_two(a)));
    _mm512_store_si512(steps.minimums + 64, _mm512_or_si512(upper_halves(c), upper_two(b)));
    return steps;
  }
};

const RegisterVnniFormat kVnniQ4_K(kernels_of<Q4_K>("q4_k"));

}  // namespace
}  // namespace fk::vnni
