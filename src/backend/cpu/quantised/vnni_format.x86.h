// The VNNI kernels of a weight format, from a struct that has, for a block of sixteen packed rows,
//
//   kElements, kBytes   of a block of one row
//   kMostRows           of x at once: 4 or 8
//   pack(rows, panel)   the blocks of sixteen rows as one of the panel
//   multiply<M>(block, x, token, at, sums)
//                       sums[m] += a block times elements at .. of rows token + m of x
//   Widened widen(panel, at)
//                       elements at .. at + 31 of a panel
//
// VPDPBUSD multiplies unsigned by signed bytes: the codes of w are stored unsigned, with kOffset added, and what that
// adds to a sum is known from the sums of x's codes.
#pragma once

#include <cstring>

#include "backend/cpu/matmul/avx512.x86.h"
#include "backend/cpu/quantised/vnni_kernels.x86.h"

// Attributes, not compiler flags for the file: inline functions of headers still run on CPUs without VNNI.
#define FK_VNNI __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512bf16,fma,f16c")))
#define FK_VNNI_INLINE FK_VNNI __attribute__((always_inline)) inline

namespace fk::vnni {

FK_VNNI_INLINE __m512i load(const std::byte* address) { return _mm512_loadu_si512(address); }
FK_VNNI_INLINE __m512i low_halves(__m512i bytes) { return _mm512_and_si512(bytes, _mm512_set1_epi8(15)); }
FK_VNNI_INLINE __m512i upper_halves(__m512i bytes) { return low_halves(_mm512_srli_epi16(bytes, 4)); }
// Sixteen halves.
FK_VNNI_INLINE __m512 load_halves(const std::byte* address) {
  return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(address)));
}
// Sixteen bytes.
FK_VNNI_INLINE __m512 unsigned_floats(__m128i bytes) { return _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(bytes)); }
FK_VNNI_INLINE __m512 signed_floats(__m128i bytes) { return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(bytes)); }
FK_VNNI_INLINE __m128i load16(const void* address) { return _mm_loadu_si128(static_cast<const __m128i*>(address)); }

// sums += a word of sixteen rows of w times four codes of x
FK_VNNI_INLINE __m512i add_word(__m512i sums, __m512i w, const int8_t* x) {
  int32_t word;
  std::memcpy(&word, x, 4);
  return _mm512_dpbusd_epi32(sums, w, _mm512_set1_epi32(word));
}

// M rows of x, from one of their elements on.
struct Codes {
  const int8_t* of;
  int64_t stride;
};
template <int M>
FK_VNNI_INLINE void add_word(__m512i (&sums)[M], __m512i w, Codes x, int64_t at) {
#pragma GCC unroll 8
  for (int m = 0; m < M; ++m) sums[m] = add_word(sums[m], w, x.of + m * x.stride + at);
}

template <int M>
FK_VNNI_INLINE void clear(__m512 (&sums)[M]) {
#pragma GCC unroll 8
  for (int m = 0; m < M; ++m) sums[m] = _mm512_setzero_ps();
}

// Into the L1 cache, some lines at a time: out-of-order execution looks less far ahead where codes have 4
// bits.
template <int64_t kBytes>
FK_VNNI_INLINE void prefetch_ahead(const std::byte* block) {
  constexpr int64_t kDistance = 2048;
#pragma GCC unroll 64
  for (int64_t line = 0; line < kBytes; line += 64) _mm_prefetch(block + kDistance + line, _MM_HINT_T0);
}

using PanelBlocks = const std::byte* [kPanelRows];

// Words of each row from byte `at` on: word i of row r goes to panel + i * stride + 4 r. kCount: at most 16.
template <int kCount>
FK_VNNI_INLINE void pack_words(const PanelBlocks& rows, int64_t at, std::byte* panel, int64_t stride = 64,
                               int8_t flipped_bits = 0) {
  constexpr auto kMask = static_cast<__mmask16>((1u << kCount) - 1);
  __m512i r[16];
#pragma GCC unroll 16
  for (int i = 0; i < 16; ++i) r[i] = _mm512_maskz_loadu_epi32(kMask, rows[i] + at);
  avx512::transpose16(r);
#pragma GCC unroll 16
  for (int i = 0; i < kCount; ++i)
    _mm512_storeu_si512(panel + i * stride, _mm512_xor_si512(r[i], _mm512_set1_epi8(flipped_bits)));
}
// Likewise pieces of 1 or 2 bytes.
template <int64_t kSize>
FK_VNNI_INLINE void pack_pieces(const PanelBlocks& rows, int64_t at, int64_t count, std::byte* panel) {
  for (int64_t i = 0; i < count; ++i)
    for (int64_t r = 0; r < kPanelRows; ++r)
      std::memcpy(panel + (i * kPanelRows + r) * kSize, rows[r] + at + i * kSize, kSize);
}

template <class F>
FK_VNNI void pack_panel(const PackRowsTask& task) {
  static constexpr std::byte kZeroBlock[F::kBytes] = {};
  for (int64_t block = 0; block * F::kElements < task.k; ++block) {
    PanelBlocks rows;
    for (int64_t r = 0; r < kPanelRows; ++r)
      rows[r] = r < task.rows ? task.w + r * task.w_stride + block * F::kBytes : kZeroBlock;
    F::pack(rows, task.panel + block * kPanelRows * F::kBytes);
  }
}

// kPanels panels times M rows of x.
template <class F, int M, int kPanels>
FK_VNNI void multiply_rows(const MultiplyPanelsTask& task, int64_t panel, int64_t row) {
  const RoundedRows& x = *task.x;
  const int64_t panel_bytes = x.k / F::kElements * kPanelRows * F::kBytes;
  const std::byte* block = task.panel + panel * panel_bytes;
  __m512 sums[kPanels][M];
#pragma GCC unroll 4
  for (int p = 0; p < kPanels; ++p) clear(sums[p]);
  for (int64_t at = 0; at < x.k; at += F::kElements, block += kPanelRows * F::kBytes) {
#pragma GCC unroll 4
    for (int p = 0; p < kPanels; ++p)
      F::template multiply<M>(block + p * panel_bytes, x, task.token + row, at, sums[p]);
  }
#pragma GCC unroll 4
  for (int p = 0; p < kPanels; ++p)
#pragma GCC unroll 8
    for (int m = 0; m < M; ++m)
      _mm512_storeu_ps(task.sums + (row + m) * task.sums_stride + (panel + p) * kPanelRows, sums[p][m]);
}

// What is added up for a row of x does not depend on how many there are.
template <class F>
void multiply_panels(const MultiplyPanelsTask& task) {
  constexpr int kPanels = 4;
  int64_t panel = 0;
  if (task.tokens == 1)
    for (; panel + kPanels <= task.panels; panel += kPanels) multiply_rows<F, 1, kPanels>(task, panel, 0);
  for (; panel < task.panels; ++panel) {
    int64_t row = 0;
    for (; row + F::kMostRows <= task.tokens; row += F::kMostRows) multiply_rows<F, F::kMostRows, 1>(task, panel, row);
    if constexpr (F::kMostRows > 4)
      for (; row + 4 <= task.tokens; row += 4) multiply_rows<F, 4, 1>(task, panel, row);
    for (; row + 2 <= task.tokens; row += 2) multiply_rows<F, 2, 1>(task, panel, row);
    for (; row < task.tokens; ++row) multiply_rows<F, 1, 1>(task, panel, row);
  }
}

// Codes of 32 elements, as words of sixteen rows, and their scales: the first and the last sixteen elements are
// codes * scales[i] + shifts[i].
struct Widened {
  __m512i words[8];
  __m512 scales[2], shifts[2];
};

// Piece i, of kBytes, of the panel that is widened when this one has been multiplied, into the L2 cache.
template <int64_t kBytes>
FK_VNNI_INLINE void prefetch_next(const std::byte* panel, int64_t i) {
  for (int64_t byte = i * kBytes; byte < (i + 1) * kBytes; byte += 64) _mm_prefetch(panel + byte, _MM_HINT_T1);
}

// widened(at): those of elements at .. at + 31.
template <class F>
FK_VNNI_INLINE void widen_rows(const WidenTask& task, const F& widened) {
  alignas(64) uint8_t codes[kPanelRows][64];
  alignas(64) float scales[4][kPanelRows], shifts[4][kPanelRows];
  bf16* to = task.to;
  for (int64_t at = task.first, end = at + task.count; at < end; at += 64, to += 2 * kWidenedStep) {
    const int parts = end - at > 32 ? 2 : 1;
    __m512i r[16];
#pragma GCC unroll 2
    for (int part = 0; part < 2; ++part) {
      Widened w = widened(part < parts ? at + 32 * part : at);
#pragma GCC unroll 8
      for (int i = 0; i < 8; ++i) r[8 * part + i] = w.words[i];
#pragma GCC unroll 2
      for (int i = 0; i < 2; ++i) {
        _mm512_store_ps(scales[2 * part + i], w.scales[i]);
        _mm512_store_ps(shifts[2 * part + i], w.shifts[i]);
      }
    }
    avx512::transpose16(r);
#pragma GCC unroll 16
    for (int i = 0; i < 16; ++i) _mm512_store_si512(codes[i], r[i]);
    for (int part = 0; part < parts; ++part)
      for (int64_t row = 0; row < kPanelRows; ++row) {
        __m512 floats[2];
#pragma GCC unroll 2
        for (int i = 0; i < 2; ++i)
          floats[i] =
              _mm512_fmadd_ps(unsigned_floats(load16(codes[row] + 32 * part + 16 * i)),
                              _mm512_set1_ps(scales[2 * part + i][row]), _mm512_set1_ps(shifts[2 * part + i][row]));
        _mm512_storeu_si512(to + part * kWidenedStep + row * kWidenedRow,
                            reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(floats[1], floats[0])));
      }
  }
}

template <class F>
struct WidenedBlocks {
  const std::byte* panel;
  int64_t next_panel;
  FK_VNNI_INLINE Widened operator()(int64_t at) const {
    prefetch_next<F::kBytes * kPanelRows * 32 / F::kElements>(panel + next_panel, at / 32);
    return F::widen(panel, at);
  }
};
template <class F>
FK_VNNI void widen_panel(const std::byte* panel, const WidenTask& task) {
  widen_rows(task, WidenedBlocks<F>{panel, task.next_panel});
}

template <class F>
VnniFormat kernels_of(std::string_view name) {
  return {name, pack_panel<F>, multiply_panels<F>, widen_panel<F>};
}

}  // namespace fk::vnni
