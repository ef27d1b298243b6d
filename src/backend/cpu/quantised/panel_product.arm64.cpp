#include <arm_neon.h>

#include "backend/cpu/quantised/panel_product.h"
#include "core/cpu_features.h"

// Attributes, not compiler flags for the file: inline functions of headers still run on CPUs without SDOT.
#define FK_TARGET_SDOT __attribute__((target("arch=armv8.2-a+dotprod")))
#define FK_INLINE_SDOT FK_TARGET_SDOT inline __attribute__((always_inline))

namespace fk {
namespace {

constexpr int64_t kPanelRows = 8;
constexpr int64_t kStep = kRoundedGroup;  // elements of k at a time
constexpr int64_t kShortGroup = 16;

// Sums of M rows of x with eight rows of w; the two halves of a step have sums of their own where scales differ.
template <int M, bool kHalves>
struct Dots {
  static constexpr int kParts = kHalves ? 2 : 1;
  int32x4_t of[M][kParts][2];
};

// Words `j` of both halves of a step, in w's low and high vectors of four rows each.
template <int j, int M, bool kHalves>
FK_INLINE_SDOT void add_words(const int8x16_t (&low)[2], const int8x16_t (&high)[2], const int8x16_t (&x)[M][2],
                              Dots<M, kHalves>& dots) {
#pragma GCC unroll 4
  for (int m = 0; m < M; ++m) {
#pragma GCC unroll 2
    for (int h = 0; h < 2; ++h) {
      dots.of[m][0][h] = vdotq_laneq_s32(dots.of[m][0][h], low[h], x[m][0], j);
      int32x4_t& second = dots.of[m][kHalves ? 1 : 0][h];
      second = vdotq_laneq_s32(second, high[h], x[m][1], j);
    }
  }
}

template <int j, bool kNibbles, int M, bool kHalves>
FK_INLINE_SDOT void load_and_add(const uint8_t* w, int8x16_t values, const int8x16_t (&x)[M][2],
                                 Dots<M, kHalves>& dots) {
  int8x16_t low[2], high[2];
#pragma GCC unroll 2
  for (int h = 0; h < 2; ++h) {
    if constexpr (kNibbles) {
      uint8x16_t pairs = vld1q_u8(w + 32 * j + 16 * h);
      low[h] = vqtbl1q_s8(values, vandq_u8(pairs, vdupq_n_u8(15)));
      high[h] = vqtbl1q_s8(values, vshrq_n_u8(pairs, 4));
    } else {
      low[h] = vreinterpretq_s8_u8(vld1q_u8(w + 32 * j + 16 * h));
      high[h] = vreinterpretq_s8_u8(vld1q_u8(w + 128 + 32 * j + 16 * h));
    }
  }
  add_words<j>(low, high, x, dots);
}

template <int M, bool kNibbles, bool kHalves>
FK_TARGET_SDOT void multiply_rows(const IntPanels& w, int64_t panel, const RoundedRows& x, int64_t t, float* sums) {
  constexpr int64_t kStepBytes = kNibbles ? 128 : 256;
  const auto* codes = reinterpret_cast<const uint8_t*>(w.codes.data()) + panel * (w.k / kStep) * kStepBytes;
  const auto* scales = reinterpret_cast<const float*>(w.scales.data()) + panel * w.groups() * kPanelRows;
  const float* minimums =
      w.has_minimums ? reinterpret_cast<const float*>(w.minimums.data()) + panel * w.groups() * kPanelRows : nullptr;
  const int8x16_t values = vld1q_s8(w.values);
  const int64_t steps_of_group = kHalves ? 1 : w.group / kStep;
  float32x4_t total[M][2];
#pragma GCC unroll 4
  for (int m = 0; m < M; ++m) total[m][0] = total[m][1] = vdupq_n_f32(0);
  int64_t left = steps_of_group;
  for (int64_t step = 0; step < w.k / kStep; ++step, codes += kStepBytes) {
    __builtin_prefetch(codes + 8 * kStepBytes, 0, 0);
    __builtin_prefetch(codes + 8 * kStepBytes + 64, 0, 0);
    int8x16_t of_x[M][2];
    Dots<M, kHalves> dots;
#pragma GCC unroll 4
    for (int m = 0; m < M; ++m) {
      const int8_t* row = x.codes + (t + m) * x.k + step * kStep;
      of_x[m][0] = vld1q_s8(row);
      of_x[m][1] = vld1q_s8(row + 16);
#pragma GCC unroll 2
      for (int part = 0; part < dots.kParts; ++part) dots.of[m][part][0] = dots.of[m][part][1] = vdupq_n_s32(0);
    }
    load_and_add<0, kNibbles>(codes, values, of_x, dots);
    load_and_add<1, kNibbles>(codes, values, of_x, dots);
    load_and_add<2, kNibbles>(codes, values, of_x, dots);
    load_and_add<3, kNibbles>(codes, values, of_x, dots);
#pragma GCC unroll 4
    for (int m = 0; m < M; ++m) {
      int64_t group = (t + m) * x.groups() + step;
      float x_scale = x.scales[group];
#pragma GCC unroll 2
      for (int h = 0; h < 2; ++h) {
#pragma GCC unroll 2
        for (int part = 0; part < dots.kParts; ++part)
          total[m][h] = vfmaq_f32(total[m][h], vcvtq_f32_s32(dots.of[m][part][h]),
                                  vmulq_n_f32(vld1q_f32(scales + part * kPanelRows + 4 * h), x_scale));
        if (minimums != nullptr) total[m][h] = vfmsq_n_f32(total[m][h], vld1q_f32(minimums + 4 * h), x.sums[group]);
      }
    }
    if (--left == 0) {
      left = steps_of_group;
      scales += kPanelRows * dots.kParts;
      if (minimums != nullptr) minimums += kPanelRows;
    }
  }
#pragma GCC unroll 4
  for (int m = 0; m < M; ++m) {
    vst1q_f32(sums + (t + m) * kPanelRows, total[m][0]);
    vst1q_f32(sums + (t + m) * kPanelRows + 4, total[m][1]);
  }
}

template <bool kNibbles, bool kHalves>
void multiply_all(const IntPanels& w, int64_t panel, const RoundedRows& x, float* sums) {
  int64_t t = 0;
  for (; t + 4 <= x.m; t += 4) multiply_rows<4, kNibbles, kHalves>(w, panel, x, t, sums);
  for (; t + 2 <= x.m; t += 2) multiply_rows<2, kNibbles, kHalves>(w, panel, x, t, sums);
  for (; t < x.m; ++t) multiply_rows<1, kNibbles, kHalves>(w, panel, x, t, sums);
}

}  // namespace

const int64_t IntPanels::kRows = kPanelRows;

std::string_view without_panels() { return cpu_features().neon_dot ? "" : "this CPU has no SDOT"; }

void multiply_panels(const IntPanels& w, int64_t first, int64_t panels, const RoundedRows& x, float* sums) {
  const bool halves = w.group == kShortGroup;
  for (int64_t panel = first; panel < first + panels; ++panel, sums += x.m * kPanelRows) {
    if (w.nibbles)
      halves ? multiply_all<true, true>(w, panel, x, sums) : multiply_all<true, false>(w, panel, x, sums);
    else
      multiply_all<false, false>(w, panel, x, sums);
  }
}

}  // namespace fk
