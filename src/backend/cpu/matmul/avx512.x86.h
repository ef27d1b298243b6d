// AVX-512 building blocks of the matrix products: masked rows, 16x16 transposes, packing of x and storing of y.
//
// Every function has its instruction set as an attribute instead of a compiler flag for the file, so that inline
// functions of shared headers are not compiled with instructions that older CPUs lack.
#pragma once

// GCC 12 warns about its own "undefined" register values when intrinsics are inlined.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#include <immintrin.h>
#pragma GCC diagnostic pop

#include <cstddef>
#include <cstdint>

#include "core/dtype.h"

// VDPBF16PS is used only through its intrinsic, so functions without it run on every AVX-512 CPU.
#define FK_AVX512 __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,fma")))
#define FK_AVX512_INLINE FK_AVX512 __attribute__((always_inline)) inline

namespace fk::avx512 {

// The low `count` lanes; all of them from 16 (32) on.
FK_AVX512_INLINE __mmask16 first16(int64_t count) {
  return static_cast<__mmask16>(count >= 16 ? 0xffffu : (1u << count) - 1);
}
FK_AVX512_INLINE __mmask32 first32(int64_t count) {
  return static_cast<__mmask32>(count >= 32 ? 0xffffffffu : (1u << count) - 1);
}

// Rows of 16 dwords become columns.
FK_AVX512_INLINE void transpose16(__m512i (&r)[16]) {
  __m512i t[16];
  for (int i = 0; i < 16; i += 2) {
    t[i] = _mm512_unpacklo_epi32(r[i], r[i + 1]);
    t[i + 1] = _mm512_unpackhi_epi32(r[i], r[i + 1]);
  }
  for (int i = 0; i < 16; i += 4) {
    r[i] = _mm512_unpacklo_epi64(t[i], t[i + 2]);
    r[i + 1] = _mm512_unpackhi_epi64(t[i], t[i + 2]);
    r[i + 2] = _mm512_unpacklo_epi64(t[i + 1], t[i + 3]);
    r[i + 3] = _mm512_unpackhi_epi64(t[i + 1], t[i + 3]);
  }
  for (int i = 0; i < 4; ++i) {
    t[i] = _mm512_shuffle_i32x4(r[i], r[i + 4], 0x88);
    t[i + 4] = _mm512_shuffle_i32x4(r[i], r[i + 4], 0xdd);
    t[i + 8] = _mm512_shuffle_i32x4(r[i + 8], r[i + 12], 0x88);
    t[i + 12] = _mm512_shuffle_i32x4(r[i + 8], r[i + 12], 0xdd);
  }
  for (int i = 0; i < 4; ++i) {
    r[i] = _mm512_shuffle_i32x4(t[i], t[i + 8], 0x88);
    r[i + 4] = _mm512_shuffle_i32x4(t[i + 4], t[i + 12], 0x88);
    r[i + 8] = _mm512_shuffle_i32x4(t[i], t[i + 8], 0xdd);
    r[i + 12] = _mm512_shuffle_i32x4(t[i + 4], t[i + 12], 0xdd);
  }
}

// Sixteen rows (those past `rows` are zero) of `bytes` bytes become [ceil(bytes / 4)][16] dwords, `step` dwords apart.
// Bytes past the end of a row are not read and are zero in the result. bytes is even.
FK_AVX512_INLINE void pack16(const std::byte* x, int64_t stride_bytes, int64_t rows, int64_t bytes, uint32_t* packed,
                             int64_t step) {
  for (int64_t b = 0; b < bytes; b += 64) {
    __mmask32 mask = first32((bytes - b) / 2);
    __m512i r[16];
#pragma GCC unroll 16
    for (int i = 0; i < 16; ++i)
      r[i] = i < rows ? _mm512_maskz_loadu_epi16(mask, x + i * stride_bytes + b) : _mm512_setzero_si512();
    transpose16(r);
    int64_t steps = (bytes - b + 3) / 4;
    uint32_t* out = packed + b / 4 * step;
#pragma GCC unroll 16
    for (int i = 0; i < 16; ++i)
      if (i < steps) _mm512_storeu_si512(out + i * step, r[i]);
  }
}

FK_AVX512_INLINE __m512 load_bias(const void* bias, DType dtype, __mmask16 mask) {
  if (bias == nullptr) return _mm512_setzero_ps();
  if (dtype == DType::kF32) return _mm512_maskz_loadu_ps(mask, bias);
  __m512i bits = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(mask, bias));
  return _mm512_castsi512_ps(_mm512_slli_epi32(bits, 16));
}

// To nearest even, NaN stays a quiet NaN; the same bits as bf16(float).
FK_AVX512_INLINE __m256i round_to_bf16(__m512 x) {
  __m512i u = _mm512_castps_si512(x);
  __m512i odd = _mm512_and_si512(_mm512_srli_epi32(u, 16), _mm512_set1_epi32(1));
  __m512i rounded = _mm512_add_epi32(_mm512_add_epi32(u, _mm512_set1_epi32(0x7fff)), odd);
  __mmask16 nan = _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);
  rounded = _mm512_mask_or_epi32(rounded, nan, u, _mm512_set1_epi32(0x400000));
  return _mm512_cvtepi32_epi16(_mm512_srli_epi32(rounded, 16));
}

// Sums of sixteen columns of y for sixteen rows, c[n][m] at `c_stride` floats, go to y[m][n] with the bias added.
FK_AVX512_INLINE void store16(const float* c, int64_t c_stride, __m512 bias, __mmask16 columns, int64_t rows, void* y,
                              int64_t y_stride, DType dtype) {
  __m512i r[16];
  for (int i = 0; i < 16; ++i) r[i] = _mm512_loadu_si512(c + i * c_stride);
  transpose16(r);
#pragma GCC unroll 16
  for (int i = 0; i < 16; ++i) {
    if (i >= rows) return;
    __m512 row = _mm512_add_ps(_mm512_castsi512_ps(r[i]), bias);
    if (dtype == DType::kF32)
      _mm512_mask_storeu_ps(static_cast<float*>(y) + i * y_stride, columns, row);
    else
      _mm256_mask_storeu_epi16(static_cast<uint16_t*>(y) + i * y_stride, columns, round_to_bf16(row));
  }
}

// The same for 32 columns at once, c[n][m] in two tiles of 16 columns, to bf16: a row of y is written at once. Sums are
// rounded in pairs of columns first, which halves the data to be transposed.
FK_AVX512_INLINE void store32_bf16(const float* low, const float* high, const float* bias, __mmask32 columns,
                                   int64_t rows, uint16_t* y, int64_t y_stride) {
  const __m512i interleave = _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7, 22,
                                              6, 21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
  __m512i r[16];
#pragma GCC unroll 16
  for (int i = 0; i < 16; ++i) {
    const float* c = (i < 8 ? low : high) + i % 8 * 32;
    __m512 even = _mm512_add_ps(_mm512_loadu_ps(c), _mm512_set1_ps(bias[2 * i]));
    __m512 odd = _mm512_add_ps(_mm512_loadu_ps(c + 16), _mm512_set1_ps(bias[2 * i + 1]));
    r[i] = _mm512_permutexvar_epi16(interleave, reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(odd, even)));
  }
  transpose16(r);
#pragma GCC unroll 16
  for (int i = 0; i < 16; ++i) {
    if (i >= rows) return;
    _mm512_mask_storeu_epi16(y + i * y_stride, columns, r[i]);
  }
}

}  // namespace fk::avx512
