#include "backend/cpu/quantised/panel_product.h"

#include "backend/cpu/quantised/vnni_format.x86.h"
#include "backend/cpu/quantised/widened_panels.x86.h"
#include "core/cpu_features.h"

namespace fk {
namespace {

using namespace vnni;

constexpr int64_t kStep = kRoundedGroup;  // elements of k at a time
constexpr int64_t kShortGroup = 16;
constexpr int kOffset = 128;  // what is added to codes, so that they are unsigned

// Codes of a step of a panel, with kOffset added.
template <bool kNibbles>
struct StepCodes {
  static constexpr int64_t kBytes = kPanelRows * kStep / (kNibbles ? 2 : 1);

  explicit FK_VNNI_INLINE StepCodes(const IntPanels& w)
      : values(_mm512_xor_si512(_mm512_broadcast_i32x4(load16(w.values)), _mm512_set1_epi8(INT8_MIN))) {}

  // Words i and i + 4.
  FK_VNNI_INLINE void words(const std::byte* step, int i, __m512i& low, __m512i& high) const {
    if constexpr (kNibbles) {
      __m512i pairs = load(step + 64 * i);
      low = _mm512_shuffle_epi8(values, low_halves(pairs));
      high = _mm512_shuffle_epi8(values, upper_halves(pairs));
    } else {
      low = _mm512_xor_si512(load(step + 64 * i), _mm512_set1_epi8(INT8_MIN));
      high = _mm512_xor_si512(load(step + 64 * (i + 4)), _mm512_set1_epi8(INT8_MIN));
    }
  }

  __m512i values;
};

const std::byte* codes_of(const IntPanels& w, int64_t panel) { return w.codes.data() + panel * w.panel_bytes(); }
const float* scales_of(const IntPanels& w, const Buffer& all, int64_t panel) {
  return reinterpret_cast<const float*>(all.data()) + panel * w.groups() * kPanelRows;
}

// The scales of a group of a panel: where its sums begin, and how they are added to those of all groups.
template <int M, bool kHalves>
struct StepScales {
  static constexpr int kParts = kHalves ? 2 : 1;

  FK_VNNI_INLINE void start(const RoundedRows& x, int64_t t, int64_t step, __m512i (&dots)[kParts][M]) const {
#pragma GCC unroll 8
    for (int m = 0; m < M; ++m) {
      const int16_t* sum = x.code_sums + ((t + m) * x.groups() + step) * 2;
      if constexpr (kHalves) {
        dots[0][m] = _mm512_set1_epi32(-kOffset * sum[0]);
        dots[1][m] = _mm512_set1_epi32(-kOffset * sum[1]);
      } else {
        dots[0][m] = _mm512_set1_epi32(-kOffset * (sum[0] + sum[1]));
      }
    }
  }
  FK_VNNI_INLINE void add(const RoundedRows& x, int64_t t, int64_t step, const __m512i (&dots)[kParts][M],
                          __m512 (&sums)[M]) const {
#pragma GCC unroll 2
    for (int part = 0; part < kParts; ++part) {
      const __m512 w_scale = _mm512_loadu_ps(scales + part * kPanelRows);
#pragma GCC unroll 8
      for (int m = 0; m < M; ++m)
        sums[m] =
            _mm512_fmadd_ps(_mm512_cvtepi32_ps(dots[part][m]),
                            _mm512_mul_ps(w_scale, _mm512_set1_ps(x.scales[(t + m) * x.groups() + step])), sums[m]);
    }
    if (minimums == nullptr) return;
    const __m512 minimum = _mm512_loadu_ps(minimums);
#pragma GCC unroll 8
    for (int m = 0; m < M; ++m)
      sums[m] = _mm512_fnmadd_ps(minimum, _mm512_set1_ps(x.sums[(t + m) * x.groups() + step]), sums[m]);
  }

  const float *scales, *minimums;  // of a group; minimums: nullptr where there are none
};

// kPanels panels times M rows of x. kHalves: the two halves of a step have scales of their own.
template <int kPanels, int M, bool kNibbles, bool kHalves>
FK_VNNI void multiply_rows(const IntPanels& w, int64_t panel, const RoundedRows& x, int64_t t, float* to) {
  using Scales = StepScales<M, kHalves>;
  const StepCodes<kNibbles> step_codes(w);
  const std::byte* codes = codes_of(w, panel);
  const float *scales = scales_of(w, w.scales, panel),
              *minimums = w.has_minimums ? scales_of(w, w.minimums, panel) : nullptr;
  const int64_t steps_of_group = kHalves ? 1 : w.group / kStep, panel_scales = w.groups() * kPanelRows;
  __m512 sums[kPanels][M];
#pragma GCC unroll 4
  for (int p = 0; p < kPanels; ++p) clear(sums[p]);
  int64_t left = steps_of_group;
  for (int64_t step = 0; step < x.groups(); ++step, codes += step_codes.kBytes) {
    const Codes of_x{x.codes + t * x.k + step * kStep, x.k};
#pragma GCC unroll 4
    for (int p = 0; p < kPanels; ++p) {
      const Scales at{scales + p * panel_scales, minimums == nullptr ? nullptr : minimums + p * panel_scales};
      __m512i dots[Scales::kParts][M];
      at.start(x, t, step, dots);
#pragma GCC unroll 4
      for (int i = 0; i < 4; ++i) {
        __m512i low, high;
        step_codes.words(codes + p * w.panel_bytes(), i, low, high);
        add_word(dots[0], low, of_x, 4 * i);
        add_word(dots[Scales::kParts - 1], high, of_x, 16 + 4 * i);
      }
      at.add(x, t, step, dots, sums[p]);
    }
    if (--left == 0) {
      left = steps_of_group;
      scales += Scales::kParts * kPanelRows;
      if (minimums != nullptr) minimums += kPanelRows;
    }
  }
#pragma GCC unroll 4
  for (int p = 0; p < kPanels; ++p)
#pragma GCC unroll 8
    for (int m = 0; m < M; ++m) _mm512_storeu_ps(to + (p * x.m + t + m) * kPanelRows, sums[p][m]);
}

template <bool kNibbles, bool kHalves>
void multiply_all(const IntPanels& w, int64_t panel, int64_t panels, const RoundedRows& x, float* sums) {
  constexpr int kPanels = 4;
  if (x.m == 1 && panels == kPanels) return multiply_rows<kPanels, 1, kNibbles, kHalves>(w, panel, x, 0, sums);
  for (const int64_t end = panel + panels; panel < end; ++panel, sums += x.m * kPanelRows) {
    int64_t t = 0;
    for (; t + 8 <= x.m; t += 8) multiply_rows<1, 8, kNibbles, kHalves>(w, panel, x, t, sums);
    for (; t + 4 <= x.m; t += 4) multiply_rows<1, 4, kNibbles, kHalves>(w, panel, x, t, sums);
    for (; t + 2 <= x.m; t += 2) multiply_rows<1, 2, kNibbles, kHalves>(w, panel, x, t, sums);
    for (; t < x.m; ++t) multiply_rows<1, 1, kNibbles, kHalves>(w, panel, x, t, sums);
  }
}

// The codes of steps of a panel, as widen_panel() takes them.
template <bool kNibbles>
struct WidenedSteps {
  const IntPanels& w;
  const std::byte* codes;
  const float *scales, *minimums;  // minimums: nullptr where there are none
  StepCodes<kNibbles> step_codes;

  FK_VNNI_INLINE Widened operator()(int64_t at) const {
    prefetch_next<StepCodes<kNibbles>::kBytes>(codes + kWidenedPanels * w.panel_bytes(), at / kStep);
    Widened of;
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i)
      step_codes.words(codes + at / kStep * step_codes.kBytes, i, of.words[i], of.words[4 + i]);
#pragma GCC unroll 2
    for (int i = 0; i < 2; ++i) {
      const int64_t group = (at + kStep / 2 * i) / w.group * kPanelRows;
      of.scales[i] = _mm512_loadu_ps(scales + group);
      of.shifts[i] = _mm512_mul_ps(of.scales[i], _mm512_set1_ps(-kOffset));
      if (minimums != nullptr) of.shifts[i] = _mm512_sub_ps(of.shifts[i], _mm512_loadu_ps(minimums + group));
    }
    return of;
  }
};

template <bool kNibbles>
FK_VNNI void widen_steps(const IntPanels& w, int64_t panel, const WidenTask& task) {
  widen_rows(
      task, WidenedSteps<kNibbles>{w, codes_of(w, panel), scales_of(w, w.scales, panel),
                                   w.has_minimums ? scales_of(w, w.minimums, panel) : nullptr, StepCodes<kNibbles>(w)});
}

}  // namespace

const int64_t IntPanels::kRows = kPanelRows;

std::string_view without_panels() { return cpu_features().avx512_vnni ? "" : "this CPU has no AVX-512 VNNI"; }

void multiply_panels(const IntPanels& w, int64_t first, int64_t panels, const RoundedRows& x, float* sums) {
  const bool halves = w.group == kShortGroup;
  if (w.nibbles)
    halves ? multiply_all<true, true>(w, first, panels, x, sums) : multiply_all<true, false>(w, first, panels, x, sums);
  else
    multiply_all<false, false>(w, first, panels, x, sums);
}

void widen_panel(const IntPanels& w, int64_t panel, const WidenTask& task) {
  w.nibbles ? widen_steps<true>(w, panel, task) : widen_steps<false>(w, panel, task);
}

}  // namespace fk
