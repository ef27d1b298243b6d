// NEON kernels of Q6_K; its layout is in ops/formats/q6_k.cpp. Packed: 8 units, 16 scales of each row, then for each
// half of the block and each i from 0 to 7 three words of each row: the low halves of words i and i + 16 of that half,
// those of words i + 8 and i + 24, and the upper two bits of all four.
#include "backend/cpu/quantised/neon_format.arm64.h"

namespace fk::neon {
namespace {

struct Q6_K {
  static constexpr int64_t kElements = 256, kBytes = 210, kGroup = 16;
  static constexpr int64_t kScalesAt = 16, kCodesAt = 144, kWordBytes = 96, kHalfBytes = 8 * kWordBytes;
  static constexpr int kOffset = 32;

  FK_INLINE_DOT static void pack(const EightRows& rows, std::byte* panel) {
    pack_pieces<2>(rows, 208, 1, panel);
    pack_pieces<1>(rows, 192, 16, panel + kScalesAt);
    for (int64_t half = 0; half < 2; ++half) {
      std::byte* to = panel + kCodesAt + half * kHalfBytes;
      pack_words(rows, half * 64, 8, to, kWordBytes);
      pack_words(rows, half * 64 + 32, 8, to + 32, kWordBytes);
      pack_words(rows, 128 + half * 32, 8, to + 64, kWordBytes);
    }
  }

  FK_INLINE_DOT static void unpack(const std::byte* panel, int8_t* codes, float* scales, float*) {
    FloatSums units = load_halves(panel);
    for (int64_t g = 0; g < 16; ++g) {
      int16x8_t steps = steps_of(panel, g);
      store(scales + g * kPanelRows, {vmulq_f32(vcvtq_f32_s32(vmovl_s16(vget_low_s16(steps))), units.upper),
                                      vmulq_f32(vcvtq_f32_s32(vmovl_high_s16(steps)), units.lower)});
    }
    const int8x16_t offset = vdupq_n_s8(kOffset);
    for (int64_t half = 0; half < 2; ++half)
      for (int64_t word = 0; word < 8; ++word)
        for (int64_t four = 0; four < 2; ++four) {
          Quarters part = quarters(panel + kCodesAt + half * kHalfBytes + word * kWordBytes + four * 16);
          int8_t* to = codes + (half * 32 + word) * 32 + four * 16;
#pragma GCC unroll 4
          for (int q = 0; q < 4; ++q) vst1q_s8(to + q * 256, vsubq_s8(part.codes[q], offset));
        }
  }

  template <bool kAhead>
  FK_TARGET_DOT static void multiply(const MultiplyPanelTask& task) {
    const RoundedRows& x = *task.x;
    const std::byte* block = task.panel;
    const int8_t* codes = x.codes + task.token * x.k;
    const float* scales = x.scales + task.token * x.groups();
    const int16_t* code_sums = x.code_sums + task.token * 2 * x.groups();
    FloatSums sums{vdupq_n_f32(0), vdupq_n_f32(0)}, offsets = sums;
    for (int64_t at = 0; at < x.k; at += kElements) {
      Sums products = starting_at(kNothing), least = starting_at(kNothing);
#pragma GCC unroll 4
      for (int part = 0; part < 4; ++part) {  // half of a half: four words of each of its quarters
        if constexpr (kAhead) prefetch_ahead<kPanelRows * kBytes / 4>(block + part * kPanelRows * kBytes / 4);
        const int half = part / 2, second = part % 2;
        const std::byte* words = block + kCodesAt + half * kHalfBytes + second * 4 * kWordBytes;
        Sums quarter[4];
        int8x16_t of_x[4];
#pragma GCC unroll 4
        for (int q = 0; q < 4; ++q) {
          quarter[q] = starting_at(kNothing);
          of_x[q] = vld1q_s8(codes + half * 128 + q * 32 + second * 16);
        }
        add_quarters<0>(quarter, words, of_x);
        add_quarters<1>(quarter, words + kWordBytes, of_x);
        add_quarters<2>(quarter, words + 2 * kWordBytes, of_x);
        add_quarters<3>(quarter, words + 3 * kWordBytes, of_x);
#pragma GCC unroll 4
        for (int q = 0; q < 4; ++q) {
          const int group = half * 8 + q * 2 + second;
          int16x8_t steps = steps_of(block, group);
          add_products(products, quarter[q], steps);
          add_products(least, steps, code_sums[group]);
        }
      }
      FloatSums units = load_halves(block);
      add_scaled(sums, products, units, *scales);
      add_scaled(offsets, least, units, *scales);
      block += kPanelRows * kBytes;
      codes += kElements;
      scales += kElements / kRoundedGroup;
      code_sums += kElements / 16;
    }
    vst1q_f32(task.sums, vfmsq_n_f32(sums.upper, offsets.upper, kOffset));
    vst1q_f32(task.sums + 4, vfmsq_n_f32(sums.lower, offsets.lower, kOffset));
  }

 private:
  FK_INLINE_DOT static int16x8_t steps_of(const std::byte* panel, int64_t group) {
    return vmovl_s8(vld1_s8(reinterpret_cast<const int8_t*>(panel + kScalesAt) + group * kPanelRows));
  }

  struct Quarters {
    int8x16_t codes[4];
  };
  // Shifts that insert: sixteen bytes of upper bits and twice sixteen of low halves become 64 codes by nine
  // instructions. Their targets are overwritten, so low halves are loaded for each of their two codes.
  FK_INLINE_DOT static Quarters quarters(const std::byte* words) {
    const uint8x16_t mask = vdupq_n_u8(0x3f);
    uint8x16_t upper = load_bytes(words + 64), shifted = vshrq_n_u8(upper, 2);
    uint8x16_t first = vsliq_n_u8(load_bytes(words), upper, 4), second = vsliq_n_u8(load_bytes(words + 32), shifted, 4),
               third = vsriq_n_u8(upper, load_again<uint8x16_t>(words), 4),
               fourth = vsriq_n_u8(shifted, load_again<uint8x16_t>(words + 32), 4);
    return {{as_signed(vandq_u8(first, mask)), as_signed(vandq_u8(second, mask)), as_signed(vandq_u8(third, mask)),
             as_signed(vandq_u8(fourth, mask))}};
  }
  template <int kWord>
  FK_INLINE_DOT static void add_quarters(Sums (&sums)[4], const std::byte* words, const int8x16_t (&x)[4]) {
    Quarters upper = quarters(words), lower = quarters(words + 16);
#pragma GCC unroll 4
    for (int q = 0; q < 4; ++q) add_word<kWord>(sums[q], upper.codes[q], lower.codes[q], x[q]);
  }
};

const RegisterNeonFormat kNeonQ6_K(kernels_of<Q6_K>("q6_k"));

}  // namespace
}  // namespace fk::neon
