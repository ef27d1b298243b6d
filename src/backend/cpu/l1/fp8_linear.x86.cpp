// `fp8_linear` with AVX-512: for few tokens codes are read in place and become floats in registers, for many they
// become bf16 where a product of AMX needs them.
#include "backend/cpu/for_pieces.h"
#include "backend/cpu/l1/fp8_linear_call.h"
#include "backend/cpu/quantised/vnni_format.x86.h"
#include "backend/cpu/quantised/widened_panels.x86.h"
#include "core/cpu_features.h"
#include "ops/batch_invariant.h"
#include "ops/register.h"

namespace fk {
namespace {

std::string_view without_avx512() { return cpu_features().avx512 ? "" : "this CPU has no AVX-512 (F, BW, DQ, VL)"; }

constexpr int64_t kFewTokens = 4;
constexpr int64_t kRowsOfAPiece = 32;
constexpr float kHalfFactor = 256;  // what is missing in the exponents of floats_of()

// A code is a half with an exponent that is 8 too small: s eeee mmm becomes s0eeee mmm0000000. A shift copies the sign
// into bit 14 as well, which is cleared. A NaN becomes 480: codes with a NaN are refused when they
// are loaded (models/weights.cpp).
FK_AVX512_INLINE __m512 floats_of(const uint8_t* codes, __mmask16 mask) {
  __m256i wide = _mm256_slli_epi16(_mm256_cvtepi8_epi16(_mm_maskz_loadu_epi8(mask, codes)), 7);
  return _mm512_cvtph_ps(_mm256_and_si256(wide, _mm256_set1_epi16(static_cast<int16_t>(0xbfff))));
}

// Sums of M rows of x, f32 [M][k], with R rows of w, `w_stride` bytes apart. Several rows at once: hardware prefetchers
// follow one stream per page, and a single stream does not use the full memory bandwidth.
template <int M, int R>
FK_AVX512 void multiply_rows(const uint8_t* w, int64_t w_stride, const Fp8Scales (&scales)[R], int64_t k,
                             const float* x, float (&sums)[M][R]) {
  __m512 total[M][R];
#pragma GCC unroll 4
  for (int m = 0; m < M; ++m)
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r) total[m][r] = _mm512_setzero_ps();
  const int64_t run = scales[0].run;
  for (int64_t begin = 0; begin < k; begin += run) {
    const int64_t end = std::min(begin + run, k);
    __m512 part[M][R];
#pragma GCC unroll 4
    for (int m = 0; m < M; ++m)
#pragma GCC unroll 4
      for (int r = 0; r < R; ++r) part[m][r] = _mm512_setzero_ps();
    for (int64_t i = begin; i < end; i += 16) {
      const __mmask16 mask = avx512::first16(end - i);
      __m512 of_x[M];
#pragma GCC unroll 4
      for (int m = 0; m < M; ++m) of_x[m] = _mm512_maskz_loadu_ps(mask, x + m * k + i);
#pragma GCC unroll 4
      for (int r = 0; r < R; ++r) {
        const __m512 of_w = floats_of(w + r * w_stride + i, mask);
#pragma GCC unroll 4
        for (int m = 0; m < M; ++m) part[m][r] = _mm512_fmadd_ps(of_w, of_x[m], part[m][r]);
      }
    }
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r) {
      const __m512 scale = _mm512_set1_ps(kHalfFactor * scales[r].of_row[begin / run]);
#pragma GCC unroll 4
      for (int m = 0; m < M; ++m) total[m][r] = _mm512_fmadd_ps(part[m][r], scale, total[m][r]);
    }
  }
  for (int m = 0; m < M; ++m)
    for (int r = 0; r < R; ++r) sums[m][r] = _mm512_reduce_add_ps(total[m][r]);
}

// One row of a block of matmul_amx_bf16_of().
FK_VNNI void widen_row(const uint8_t* codes, const Fp8Scales& scales, const WidenTask& task) {
  bf16* to = task.to;
  for (int64_t at = task.first; at < task.first + task.count; at += 32, to += kWidenedStep) {
    __m512 floats[2];
    for (int i = 0; i < 2; ++i) {
      const int64_t begin = at + 16 * i;
      floats[i] = _mm512_mul_ps(floats_of(codes + begin, 0xffff),
                                _mm512_set1_ps(kHalfFactor * scales.of_row[begin / scales.run]));
    }
    _mm512_storeu_si512(to, reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(floats[1], floats[0])));
  }
}

class Fp8LinearAvx512 final : public Fp8LinearDequantised {
 public:
  using Fp8LinearDequantised::Fp8LinearDequantised;

  void forward(Context& ctx, View x, View out) override {
    const int64_t m = x.size(0);
    if (m == 0) return;
    if (m <= kFewTokens && !batch_invariant()) return by_rows(ctx, x, out);
    if (init_.in_features % 32 != 0 || !widening_pays_off(x, out, init_.bias ? init_.dtype : x.dtype(), kFewTokens + 1))
      return Fp8LinearDequantised::forward(ctx, x, out);
    const auto* bias = static_cast<const bf16*>(bias_data());
    for (const Part& part : parts_)
      multiply_widened(ctx, x, out, part.row, part.rows, bias, [&](int64_t panel, WidenTask task) {
        const int64_t first = panel * kPanelRows;
        for (int64_t row = first; row < std::min(first + kPanelRows, part.rows); ++row, task.to += kWidenedRow)
          widen_row(codes_of(part, row), scales_of(part, row), task);
      });
  }

 private:
  const uint8_t* codes_of(const Part& part, int64_t row) const {
    const View& weight = tensors(part)[0];
    return static_cast<const uint8_t*>(weight.data()) + row * weight.stride(0);
  }
  Fp8Scales scales_of(const Part& part, int64_t row) const {
    return Fp8Scales(tensors(part)[1], part.rows, init_.in_features, row);
  }
  static int64_t pieces_of(const Part& part) { return (part.rows + kRowsOfAPiece - 1) / kRowsOfAPiece; }

  void by_rows(Context& ctx, const View& x, const View& out) const {
    const int64_t m = x.size(0), k = init_.in_features;
    View wide = ctx.arena.make({{m, k}, DType::kF32});
    for (int64_t t = 0; t < m; ++t)
      with_float(x.dtype(), [&]<class T>(T) {
        for (int64_t i = 0; i < k; ++i) wide.ptr<float>()[t * k + i] = load(row_of<T>(x, t)[i]);
      });
    int64_t pieces = 0;
    for (const Part& part : parts_) pieces += pieces_of(part);
    for_pieces(ctx.pool, pieces, [&](int, int64_t piece) {
      size_t p = 0;
      for (; piece >= pieces_of(parts_[p]); ++p) piece -= pieces_of(parts_[p]);
      const int64_t row = piece * kRowsOfAPiece, count = std::min(kRowsOfAPiece, parts_[p].rows - row);
      float sums[kFewTokens][kRowsOfAPiece];
      switch (m) {
        case 1:
          rows<1, 4>(parts_[p], row, count, wide.ptr<float>(), sums);
          break;
        case 2:
          rows<2, 4>(parts_[p], row, count, wide.ptr<float>(), sums);
          break;
        case 3:
          rows<3, 2>(parts_[p], row, count, wide.ptr<float>(), sums);
          break;
        default:
          rows<4, 2>(parts_[p], row, count, wide.ptr<float>(), sums);
      }
      for (int64_t t = 0; t < m; ++t) store_sums(out, t, parts_[p].row + row, sums[t], count);
    });
  }

  template <int M, int R>
  void rows(const Part& part, int64_t first, int64_t count, const float* x,
            float (&sums)[kFewTokens][kRowsOfAPiece]) const {
    int64_t n = 0;
    for (; n + R <= count; n += R) some_rows<M, R>(part, first, n, x, sums, std::make_index_sequence<R>());
    for (; n < count; ++n) some_rows<M, 1>(part, first, n, x, sums, std::make_index_sequence<1>());
  }

  template <int M, int R, size_t... kRow>
  void some_rows(const Part& part, int64_t first, int64_t n, const float* x, float (&sums)[kFewTokens][kRowsOfAPiece],
                 std::index_sequence<kRow...>) const {
    const Fp8Scales scales[R] = {scales_of(part, first + n + static_cast<int64_t>(kRow))...};
    float of_rows[M][R];
    multiply_rows<M, R>(codes_of(part, first + n), tensors(part)[0].stride(0), scales, init_.in_features, x, of_rows);
    for (int m = 0; m < M; ++m)
      for (int r = 0; r < R; ++r) sums[m][n + r] = of_rows[m][r];
  }
};

FK_IMPLEMENTATION(Fp8Linear, Fp8LinearAvx512, "cpu.avx512", DeviceKind::kCpu, 10, without_avx512);

}  // namespace
}  // namespace fk
