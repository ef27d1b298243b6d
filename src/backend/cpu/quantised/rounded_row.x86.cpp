// Plain loops, compiled for several instruction sets.
#include "backend/cpu/quantised/rounded_row.h"

#include <bit>

#include "backend/cpu/quantised/rounded_rows.h"
#include "backend/cpu/simd.h"

namespace fk {
namespace {

template <class T>
FK_INLINE uint32_t largest_bits(const T* x) {
  uint32_t largest = 0;  // as integers: positive floats have the same order, and a NaN is the largest
  for (int64_t i = 0; i < kRoundedGroup; ++i) {
    uint32_t bits = std::bit_cast<uint32_t>(load(x[i])) & 0x7fffffffu;
    largest = bits > largest ? bits : largest;
  }
  return largest;
}

template <class T>
FK_INLINE void round_body(const T* x, int64_t k, int64_t group, const RoundedRow& to) {
  float steps = 0, scale = 0;
  for (int64_t at = 0; at < k; at += kRoundedGroup) {
    if (at % group == 0) {
      uint32_t bits = 0;
      for (int64_t i = at; i < at + group; i += kRoundedGroup) {
        uint32_t part = largest_bits(x + i);
        bits = part > bits ? part : bits;
      }
      auto largest = std::bit_cast<float>(bits);
      steps = largest < kSmallestRounded ? 0 : 127 / largest;
      // NaN and infinity make the scale so, and with it every output.
      scale = steps == 0 ? largest * 0 : largest / 127;
    }
    int32_t sums[2] = {};
    for (int64_t half = 0; half < 2; ++half) {
      for (int64_t i = at + half * 16; i < at + half * 16 + 16; ++i) {
        // Adding 1.5 * 2^23 rounds to an integer, which is then in the low bits.
        auto code = static_cast<int32_t>(std::bit_cast<uint32_t>(load(x[i]) * steps + 0x1.8p23f) - 0x4b400000u);
        to.codes[i] = static_cast<int8_t>(code);
        sums[half] += code;
      }
      to.code_sums[at / 16 + half] = static_cast<int16_t>(sums[half]);
    }
    to.scales[at / kRoundedGroup] = scale;
    to.sums[at / kRoundedGroup] = scale * static_cast<float>(sums[0] + sums[1]);
  }
}

FK_SIMD_CLONES void best_round(const bf16* x, int64_t k, int64_t group, const RoundedRow& to) {
  round_body(x, k, group, to);
}
FK_SIMD_CLONES void best_round(const f16* x, int64_t k, int64_t group, const RoundedRow& to) {
  round_body(x, k, group, to);
}
FK_SIMD_CLONES void best_round(const float* x, int64_t k, int64_t group, const RoundedRow& to) {
  round_body(x, k, group, to);
}

}  // namespace

void round_row(const bf16* x, int64_t k, int64_t group, const RoundedRow& to) { best_round(x, k, group, to); }
void round_row(const f16* x, int64_t k, int64_t group, const RoundedRow& to) { best_round(x, k, group, to); }
void round_row(const float* x, int64_t k, int64_t group, const RoundedRow& to) { best_round(x, k, group, to); }

}  // namespace fk
