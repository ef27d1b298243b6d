#include "backend/cpu/quantised/panel_product.arm64.h"

#include <arm_neon.h>

#include <algorithm>
#include <cstring>

// Attributes, not compiler flags for the file: inline functions of headers still run on CPUs without SDOT.
#define FK_TARGET_SDOT __attribute__((target("arch=armv8.2-a+dotprod")))
#define FK_INLINE_SDOT FK_TARGET_SDOT inline __attribute__((always_inline))

namespace fk {
namespace {

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

// Eight rows of codes, [8][k], in the order of panels.
void store_codes(const IntPanels& w, const int8_t* rows, const uint8_t (&nibble_of)[256], uint8_t* to) {
  for (int64_t at = 0; at < w.k; at += kStep) {
    for (int64_t j = 0; j < 4; ++j) {
      for (int64_t r = 0; r < kPanelRows; ++r) {
        const int8_t* low = rows + r * w.k + at + 4 * j;
        for (int64_t b = 0; b < 4; ++b) {
          int64_t place = 32 * j + 4 * r + b;
          if (w.nibbles) {
            to[place] = static_cast<uint8_t>(nibble_of[static_cast<uint8_t>(low[b])] |
                                             nibble_of[static_cast<uint8_t>(low[b + 16])] << 4);
          } else {
            to[place] = static_cast<uint8_t>(low[b]);
            to[place + 128] = static_cast<uint8_t>(low[b + 16]);
          }
        }
      }
    }
    to += w.nibbles ? 128 : 256;
  }
}

}  // namespace

std::string_view refuse_panels(const ScaledFormat& format, int64_t k) {
  if (!format.has_codes()) return "the format has no integer codes";
  if (k % kStep != 0) return "rows of weights are not of whole groups of 32 elements";
  int64_t group = format.code_group(k);
  if (group % kStep != 0 && group != kShortGroup) return "groups of weights are neither of 16 nor of a multiple of 32";
  if (group == kShortGroup && format.has_offsets()) return "groups of 16 have zero points";
  return {};
}

IntPanels pack_panels(const ScaledFormat& format, std::span<const View> tensors, int64_t rows, int64_t k) {
  IntPanels w;
  w.rows = rows;
  w.k = k;
  w.group = format.code_group(k);
  w.has_minimums = format.has_offsets();
  std::span<const int8_t> values = format.code_values();
  w.nibbles = !values.empty();
  uint8_t nibble_of[256] = {};
  for (size_t i = values.size(); i-- > 0;) nibble_of[static_cast<uint8_t>(values[i])] = static_cast<uint8_t>(i);
  std::copy(values.begin(), values.end(), w.values);
  const int64_t groups = w.groups(), panel_bytes = kPanelRows * (w.nibbles ? k / 2 : k);
  const auto scale_bytes = static_cast<size_t>(w.panels() * groups * kPanelRows) * sizeof(float);
  w.codes = Buffer(static_cast<size_t>(w.panels() * panel_bytes));
  w.scales = Buffer(scale_bytes);
  if (w.has_minimums) w.minimums = Buffer(scale_bytes);
  constexpr int64_t kManyElements = 1 << 18;  // from this size on starting threads pays off
  ThreadPool pool(rows * k >= kManyElements ? std::min(usable_cores(), 8) : 1);
  pool.parallel_for(w.panels(), 4, [&](int64_t begin, int64_t end) {
    std::vector<int8_t> codes(static_cast<size_t>(kPanelRows * k));
    std::vector<float> scales(static_cast<size_t>(groups)), offsets(static_cast<size_t>(groups));
    for (int64_t panel = begin; panel < end; ++panel) {
      std::fill(codes.begin(), codes.end(), int8_t{0});
      auto* of_scales = reinterpret_cast<float*>(w.scales.data()) + panel * groups * kPanelRows;
      auto* of_minimums = reinterpret_cast<float*>(w.minimums.data()) + panel * groups * kPanelRows;
      for (int64_t r = 0; r < kPanelRows; ++r) {
        int64_t row = panel * kPanelRows + r;
        bool present = row < rows;
        if (present)
          format.codes(tensors, row, std::span(codes).subspan(static_cast<size_t>(r * k), static_cast<size_t>(k)),
                       scales.data(), offsets.data());
        for (int64_t g = 0; g < groups; ++g) {
          float scale = present ? scales[static_cast<size_t>(g)] : 0;
          of_scales[g * kPanelRows + r] = scale;
          if (w.has_minimums) of_minimums[g * kPanelRows + r] = present ? scale * offsets[static_cast<size_t>(g)] : 0;
        }
      }
      store_codes(w, codes.data(), nibble_of, reinterpret_cast<uint8_t*>(w.codes.data()) + panel * panel_bytes);
    }
  });
  return w;
}

void multiply_panel(const IntPanels& w, int64_t panel, const RoundedRows& x, float* sums) {
  bool halves = w.group == kShortGroup;
  if (w.nibbles)
    halves ? multiply_all<true, true>(w, panel, x, sums) : multiply_all<true, false>(w, panel, x, sums);
  else
    multiply_all<false, false>(w, panel, x, sums);
}

}  // namespace fk
