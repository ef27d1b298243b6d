// `fp8_linear` with NEON: for few tokens codes are read in place and become floats in registers, for many they become
// bf16 in memory.
#include <arm_neon.h>

#include "backend/cpu/for_items.h"
#include "backend/cpu/l1/fp8_linear_call.h"
#include "core/cpu_features.h"
#include "ops/batch_invariant.h"
#include "ops/register.h"

namespace fk {
namespace {

std::string_view without_neon() { return cpu_features().neon ? "" : "this CPU has no NEON"; }

constexpr int64_t kFewTokens = 4;
constexpr int64_t kRowsOfItem = 32;

// A code is a half with an exponent that is 8 too small: s eeee mmm becomes s0eeee mmm0000000. A shift copies the sign
// into bit 14 as well, which is cleared.
FK_INLINE void floats_of(int8x16_t codes, float32x4_t (&values)[4]) {
  const int16x8_t keep = vdupq_n_s16(static_cast<int16_t>(0xbfff));
  float16x8_t low = vreinterpretq_f16_s16(vandq_s16(vshll_n_s8(vget_low_s8(codes), 7), keep));
  float16x8_t high = vreinterpretq_f16_s16(vandq_s16(vshll_high_n_s8(codes, 7), keep));
  values[0] = vcvt_f32_f16(vget_low_f16(low));
  values[1] = vcvt_high_f32_f16(low);
  values[2] = vcvt_f32_f16(vget_low_f16(high));
  values[3] = vcvt_high_f32_f16(high);
}
constexpr float kHalfFactor = 256;  // what is missing in those exponents

// Sums of M rows of x, f32 [M][x_stride], with R rows of w. Scales are for runs that are a multiple of 16, or the last.
template <int M, int R>
void multiply_rows(const uint8_t* const (&w)[R], const Fp8Scales (&scales)[R], int64_t k, const float* x,
                   int64_t x_stride, float (&sums)[M][R]) {
  float32x4_t total[M][R];
  float rest[M][R] = {};
#pragma GCC unroll 4
  for (int m = 0; m < M; ++m)
#pragma GCC unroll 2
    for (int r = 0; r < R; ++r) total[m][r] = vdupq_n_f32(0);
  const int64_t run = scales[0].run;
  for (int64_t begin = 0; begin < k; begin += run) {
    int64_t end = begin + run < k ? begin + run : k, i = begin;
    float32x4_t part[M][R][2];
#pragma GCC unroll 4
    for (int m = 0; m < M; ++m)
#pragma GCC unroll 2
      for (int r = 0; r < R; ++r) part[m][r][0] = part[m][r][1] = vdupq_n_f32(0);
    for (; i + 16 <= end; i += 16) {
      float32x4_t values[R][4];
#pragma GCC unroll 2
      for (int r = 0; r < R; ++r) floats_of(vld1q_s8(reinterpret_cast<const int8_t*>(w[r]) + i), values[r]);
#pragma GCC unroll 4
      for (int m = 0; m < M; ++m)
#pragma GCC unroll 4
        for (int j = 0; j < 4; ++j) {
          float32x4_t of_x = vld1q_f32(x + m * x_stride + i + 4 * j);
#pragma GCC unroll 2
          for (int r = 0; r < R; ++r) part[m][r][j % 2] = vfmaq_f32(part[m][r][j % 2], values[r][j], of_x);
        }
    }
#pragma GCC unroll 2
    for (int r = 0; r < R; ++r) {
      float scale = scales[r].of_row[begin / run];
#pragma GCC unroll 4
      for (int m = 0; m < M; ++m) {
        total[m][r] = vfmaq_n_f32(total[m][r], vaddq_f32(part[m][r][0], part[m][r][1]), kHalfFactor * scale);
        for (int64_t at = i; at < end; ++at) rest[m][r] += fp8_value(w[r][at]) * scale * x[m * x_stride + at];
      }
    }
  }
  for (int m = 0; m < M; ++m)
    for (int r = 0; r < R; ++r) sums[m][r] = vaddvq_f32(total[m][r]) + rest[m][r];
}

// Rounds to nearest, halves away from zero.
void unpack_row(const uint8_t* codes, const Fp8Scales& scales, int64_t columns, bf16* to) {
  for (int64_t begin = 0; begin < columns; begin += scales.run) {
    float scale = scales.of_row[begin / scales.run];
    int64_t end = begin + scales.run < columns ? begin + scales.run : columns, i = begin;
    for (; i + 16 <= end; i += 16) {
      float32x4_t values[4];
      floats_of(vld1q_s8(reinterpret_cast<const int8_t*>(codes) + i), values);
      uint16x4_t halves[4];
#pragma GCC unroll 4
      for (int j = 0; j < 4; ++j)
        halves[j] = vraddhn_u32(vreinterpretq_u32_f32(vmulq_n_f32(values[j], kHalfFactor * scale)), vdupq_n_u32(0));
      auto* out = reinterpret_cast<uint16_t*>(to + i);
      vst1q_u16(out, vcombine_u16(halves[0], halves[1]));
      vst1q_u16(out + 8, vcombine_u16(halves[2], halves[3]));
    }
    for (; i < end; ++i) store(to[i], fp8_value(codes[i]) * scale);
  }
}

class Fp8LinearNeon final : public Fp8LinearDequantised {
 public:
  using Fp8LinearDequantised::Fp8LinearDequantised;

  void forward(Context& ctx, View x, View out) override {
    const int64_t m = x.size(0), k = init_.in_features;
    if (m == 0) return;
    if (m > kFewTokens || batch_invariant()) return Fp8LinearDequantised::forward(ctx, x, out);
    View wide = ctx.arena.make({{m, k}, DType::kF32});
    for (int64_t t = 0; t < m; ++t)
      with_float(x.dtype(), [&]<class T>(T) {
        for (int64_t i = 0; i < k; ++i) wide.ptr<float>()[t * k + i] = load(row_of<T>(x, t)[i]);
      });
    int64_t items = 0;
    for (const Part& part : parts_) items += items_of(part);
    for_items(ctx.pool, items, [&](int, int64_t item) {
      size_t p = 0;
      for (; item >= items_of(parts_[p]); ++p) item -= items_of(parts_[p]);
      int64_t row = item * kRowsOfItem, count = std::min(kRowsOfItem, parts_[p].rows - row);
      float sums[kFewTokens][kRowsOfItem];
      const float* all = wide.ptr<float>();
      switch (m) {
        case 1:
          rows<1, 2>(parts_[p], row, count, all, sums);
          break;
        case 2:
          rows<2, 2>(parts_[p], row, count, all, sums);
          break;
        case 3:
          rows<3, 1>(parts_[p], row, count, all, sums);
          break;
        default:
          rows<4, 1>(parts_[p], row, count, all, sums);
      }
      for (int64_t t = 0; t < m; ++t) store_sums(out, t, parts_[p].row + row, sums[t], count);
    });
  }

 protected:
  void unpack(const Part& part, int64_t row, const View& to) const override {
    if (to.dtype() != DType::kBF16) return Fp8LinearDequantised::unpack(part, row, to);
    std::span<const View> weight = tensors(part);
    const auto* codes = static_cast<const uint8_t*>(weight[0].data()) + row * weight[0].stride(0);
    unpack_row(codes, Fp8Scales(weight[1], part.rows, init_.in_features, row), init_.in_features, to.ptr<bf16>());
  }

 private:
  static int64_t items_of(const Part& part) { return (part.rows + kRowsOfItem - 1) / kRowsOfItem; }

  template <int M, int R>
  void rows(const Part& part, int64_t first, int64_t count, const float* x,
            float (&sums)[kFewTokens][kRowsOfItem]) const {
    int64_t n = 0;
    for (; n + R <= count; n += R) some_rows<M, R>(part, first, n, x, sums);
    for (; n < count; ++n) some_rows<M, 1>(part, first, n, x, sums);
  }

  template <int M, int R>
  void some_rows(const Part& part, int64_t first, int64_t n, const float* x,
                 float (&sums)[kFewTokens][kRowsOfItem]) const {
    std::span<const View> weight = tensors(part);
    const int64_t k = init_.in_features, row = first + n;
    const auto* codes = static_cast<const uint8_t*>(weight[0].data()) + row * weight[0].stride(0);
    auto scales_of = [&](int64_t r) { return Fp8Scales(weight[1], part.rows, k, row + r); };
    float of_rows[M][R];
    if constexpr (R == 2) {
      const uint8_t* const w[] = {codes, codes + weight[0].stride(0)};
      const Fp8Scales scales[] = {scales_of(0), scales_of(1)};
      multiply_rows<M, R>(w, scales, k, x, k, of_rows);
    } else {
      const uint8_t* const w[] = {codes};
      const Fp8Scales scales[] = {scales_of(0)};
      multiply_rows<M, R>(w, scales, k, x, k, of_rows);
    }
    for (int m = 0; m < M; ++m)
      for (int r = 0; r < R; ++r) sums[m][n + r] = of_rows[m][r];
  }
};

FK_IMPLEMENTATION(Fp8Linear, Fp8LinearNeon, "cpu.neon", DeviceKind::kCpu, 10, without_neon);

}  // namespace
}  // namespace fk
