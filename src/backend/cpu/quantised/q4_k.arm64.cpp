// NEON kernels of Q4_K; its layout is in ops/formats/q4_k.cpp. Packed: 8 units of scales, 8 units of minimums, the 12
// bytes of steps of each row, then 32 words of each row; words 8 p to 8 p + 7 have group 2 p in their low halves and
// group 2 p + 1 in their upper halves.
#include "backend/cpu/quantised/neon_format.arm64.h"

namespace fk::neon {
namespace {

struct Q4_K {
  static constexpr int64_t kElements = 256, kBytes = 144, kGroup = 32;
  static constexpr int64_t kMinimumUnitsAt = 16, kStepsAt = 32, kCodesAt = 128;

  FK_INLINE_DOT static void pack(const EightRows& rows, std::byte* panel) {
    pack_pieces<2>(rows, 0, 2, panel);
    pack_pieces<1>(rows, 4, 12, panel + kStepsAt);
    pack_words(rows, 16, 32, panel + kCodesAt);
  }

  FK_INLINE_DOT static void unpack(const std::byte* panel, int8_t* codes, float* scales, float* minimums) {
    for (int64_t i = 0; i < 64; ++i) {
      uint8x16_t pairs = load_bytes(panel + kCodesAt + i * 16);
      int8_t* to = codes + i / 16 * 512 + i % 16 * 16;
      vst1q_s8(to, low_halves(pairs));
      vst1q_s8(to + 256, upper_halves(pairs));
    }
    Steps steps = steps_of(panel);
    FloatSums units = load_halves(panel), minimum_units = load_halves(panel + kMinimumUnitsAt);
    auto scaled = [](uint8x8_t bytes, const FloatSums& by) -> FloatSums {
      uint16x8_t wide = vmovl_u8(bytes);
      return {vmulq_f32(vcvtq_f32_u32(vmovl_u16(vget_low_u16(wide))), by.upper),
              vmulq_f32(vcvtq_f32_u32(vmovl_high_u16(wide)), by.lower)};
    };
#pragma GCC unroll 8
    for (int g = 0; g < 8; ++g) {
      store(scales + g * kPanelRows, scaled(half_of(steps.scales, g), units));
      store(minimums + g * kPanelRows, scaled(half_of(steps.minimums, g), minimum_units));
    }
  }

  template <bool kAhead>
  FK_TARGET_DOT static void multiply(const MultiplyPanelTask& task) {
    const RoundedRows& x = *task.x;
    const std::byte* block = task.panel;
    const int8_t* codes = x.codes + task.token * x.k;
    const float* scales = x.scales + task.token * x.groups();
    const int16_t* code_sums = x.code_sums + task.token * 2 * x.groups();
    FloatSums sums{vdupq_n_f32(0), vdupq_n_f32(0)}, least_sums = sums;
    for (int64_t at = 0; at < x.k; at += kElements) {
      Steps steps = steps_of(block);
      Sums products = starting_at(kNothing), least = starting_at(kNothing);
#pragma GCC unroll 4
      for (int pair = 0; pair < 4; ++pair) {
        if constexpr (kAhead) prefetch_ahead<kPanelRows * kBytes / 4>(block + pair * kPanelRows * kBytes / 4);
        Sums low = starting_at(kNothing), upper = starting_at(kNothing);
        add_pairs(low, upper, block + kCodesAt + pair * 256, codes + pair * 64);
        add_pairs(low, upper, block + kCodesAt + pair * 256 + 128, codes + pair * 64 + 16);
        add_products(products, low, wide(half_of(steps.scales, 2 * pair)));
        add_products(products, upper, wide(half_of(steps.scales, 2 * pair + 1)));
      }
      int16x8_t group_sums = vpaddq_s16(vld1q_s16(code_sums), vld1q_s16(code_sums + 8));
      add_least<0>(least, steps, group_sums);
      add_scaled(sums, products, load_halves(block), *scales);
      add_scaled(least_sums, least, load_halves(block + kMinimumUnitsAt), *scales);
      block += kPanelRows * kBytes;
      codes += kElements;
      scales += kElements / kRoundedGroup;
      code_sums += kElements / 16;
    }
    vst1q_f32(task.sums, vsubq_f32(sums.upper, least_sums.upper));
    vst1q_f32(task.sums + 4, vsubq_f32(sums.lower, least_sums.lower));
  }

 private:
  // Of eight groups, two in each: 6-bit numbers of eight rows.
  struct Steps {
    uint8x16_t scales[4], minimums[4];
  };
  FK_INLINE_DOT static Steps steps_of(const std::byte* panel) {
    const uint8x16_t six = vdupq_n_u8(0x3f), two = vdupq_n_u8(0x30);
    Steps steps;
#pragma GCC unroll 2
    for (int i = 0; i < 2; ++i) {
      uint8x16_t a = load_bytes(panel + kStepsAt + i * 16), b = load_bytes(panel + kStepsAt + 32 + i * 16),
                 c = load_bytes(panel + kStepsAt + 64 + i * 16);
      steps.scales[i] = vandq_u8(a, six);
      steps.minimums[i] = vandq_u8(b, six);
      steps.scales[2 + i] = vsliq_n_u8(c, vshrq_n_u8(a, 6), 4);
      steps.minimums[2 + i] = vsriq_n_u8(vandq_u8(vshrq_n_u8(b, 2), two), c, 4);
    }
    return steps;
  }
  FK_INLINE_DOT static uint8x8_t half_of(const uint8x16_t (&steps)[4], int group) {
    return group % 2 == 0 ? vget_low_u8(steps[group / 2]) : vget_high_u8(steps[group / 2]);
  }
  FK_INLINE_DOT static int16x8_t wide(uint8x8_t bytes) { return vreinterpretq_s16_u16(vmovl_u8(bytes)); }

  // Four words of two groups.
  FK_INLINE_DOT static void add_pairs(Sums& low, Sums& upper, const std::byte* words, const int8_t* codes) {
    int8x16_t x_low = vld1q_s8(codes), x_upper = vld1q_s8(codes + 32);
    add_pair<0>(low, upper, words, x_low, x_upper);
    add_pair<1>(low, upper, words + 32, x_low, x_upper);
    add_pair<2>(low, upper, words + 64, x_low, x_upper);
    add_pair<3>(low, upper, words + 96, x_low, x_upper);
  }
  template <int kWord>
  FK_INLINE_DOT static void add_pair(Sums& low, Sums& upper, const std::byte* words, int8x16_t x_low,
                                     int8x16_t x_upper) {
    uint8x16_t a = load_bytes(words), b = load_bytes(words + 16);
    add_word<kWord>(low, low_halves(a), low_halves(b), x_low);
    add_word<kWord>(upper, upper_halves(a), upper_halves(b), x_upper);
  }
  template <int kGroupIndex>
  FK_INLINE_DOT static void add_least(Sums& least, const Steps& steps, int16x8_t group_sums) {
    int16x8_t minimums = wide(half_of(steps.minimums, kGroupIndex));
    least.upper = vmlal_laneq_s16(least.upper, vget_low_s16(minimums), group_sums, kGroupIndex);
    least.lower = vmlal_high_laneq_s16(least.lower, minimums, group_sums, kGroupIndex);
    if constexpr (kGroupIndex < 7) add_least<kGroupIndex + 1>(least, steps, group_sums);
  }
};

const RegisterNeonFormat kNeonQ4_K(kernels_of<Q4_K>("q4_k"));

}  // namespace
}  // namespace fk::neon
