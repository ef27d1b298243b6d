#include "backend/cpu/quantised/rounded_rows.h"

#include <bit>

#include "backend/cpu/row_kernel.h"
#include "backend/cpu/simd.h"

namespace fk {
namespace {

// Below this 127 / largest is no longer a finite float, and the numbers are too small to matter for any output.
constexpr float kSmallest = 0x1p-100f;

template <class T>
FK_INLINE void round_body(const T* x, int64_t groups, int8_t* codes, float* scales, float* sums) {
  for (int64_t g = 0; g < groups; ++g, x += kRoundedGroup, codes += kRoundedGroup) {
    float values[kRoundedGroup];
    uint32_t largest_bits = 0;  // as integers: positive floats have the same order, and a NaN is the largest
    for (int64_t i = 0; i < kRoundedGroup; ++i) {
      values[i] = load(x[i]);
      uint32_t bits = std::bit_cast<uint32_t>(values[i]) & 0x7fffffffu;
      largest_bits = bits > largest_bits ? bits : largest_bits;
    }
    auto largest = std::bit_cast<float>(largest_bits);
    float steps = largest < kSmallest ? 0 : 127 / largest;
    int32_t sum = 0;
    for (int64_t i = 0; i < kRoundedGroup; ++i) {
      // Adding 1.5 * 2^23 rounds to an integer, which is then in the low bits.
      auto code = static_cast<int32_t>(std::bit_cast<uint32_t>(values[i] * steps + 0x1.8p23f) - 0x4b400000u);
      codes[i] = static_cast<int8_t>(code);
      sum += code;
    }
    // NaN and infinity make the scale so, and with it every output.
    float scale = steps == 0 ? largest * 0 : largest / 127;
    scales[g] = scale;
    sums[g] = scale * static_cast<float>(sum);
  }
}

FK_SIMD_CLONES void round_row(const bf16* x, int64_t groups, int8_t* codes, float* scales, float* sums) {
  round_body(x, groups, codes, scales, sums);
}
FK_SIMD_CLONES void round_row(const f16* x, int64_t groups, int8_t* codes, float* scales, float* sums) {
  round_body(x, groups, codes, scales, sums);
}
FK_SIMD_CLONES void round_row(const float* x, int64_t groups, int8_t* codes, float* scales, float* sums) {
  round_body(x, groups, codes, scales, sums);
}

}  // namespace

RoundedRows round_rows(const View& x, Arena& arena, ThreadPool& pool) {
  RoundedRows rows{.m = x.size(0), .k = x.size(1)};
  int64_t groups = rows.groups();
  rows.codes = arena.make({{rows.m, rows.k}, DType::kI8}).ptr<int8_t>();
  rows.scales = arena.make({{rows.m, groups}, DType::kF32}).ptr<float>();
  rows.sums = arena.make({{rows.m, groups}, DType::kF32}).ptr<float>();
  for_rows(pool, rows.m, rows.k, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t)
      with_float(x.dtype(), [&]<class T>(T) {
        round_row(row_of<T>(x, t), groups, rows.codes + t * rows.k, rows.scales + t * groups, rows.sums + t * groups);
      });
  });
  return rows;
}

}  // namespace fk
