// Products with FMLA, for f32 and, on CPUs without bf16 instructions, for bf16 widened to f32 as it is loaded.
#include "backend/cpu/matmul/matmul_neon.arm64.h"

#include <arm_neon.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

namespace fk {
namespace {

struct Plain {
  using Element = float;
  using Scalar = float;
  static float32x4_t load4(const float* p) { return vld1q_f32(p); }
};

// A bf16 is the upper half of the f32 with the same value.
struct Widened {
  using Element = bf16;
  using Scalar = uint16_t;
  static float32x4_t load4(const uint16_t* p) { return vreinterpretq_f32_u32(vshll_n_u16(vld1_u16(p), 16)); }
};

template <class Source>
struct Fmla {
  using Element = typename Source::Element;
  using Scalar = typename Source::Scalar;
  using Packed = float;

  // acc[r][m] += 4 elements of w's row r times those of x's row m
  template <int M, int R>
  static inline void dot_step(float32x4_t (&acc)[R][M], const Scalar* x, int64_t x_stride, const Scalar* w,
                              int64_t w_stride) {
    float32x4_t rows[R];
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) rows[r] = Source::load4(w + r * w_stride);
#pragma GCC unroll 8
    for (int m = 0; m < M; ++m) {
      float32x4_t token = Source::load4(x + m * x_stride);
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r) acc[r][m] = vfmaq_f32(acc[r][m], rows[r], token);
    }
  }

  template <int M, int R>
  static void dot(const DotTask& task, int64_t row) {
    constexpr int kSets = M == 1 ? 2 : 1;          // a single row of x has too few sums to hide FMLA's latency
    constexpr int kStep = 64 / sizeof(Scalar);     // a cache line
    constexpr int kAhead = 1024 / sizeof(Scalar);  // prefetch distance in each row
    const int64_t k = task.k, x_stride = task.x_stride, w_stride = task.w_stride;
    auto* x = static_cast<const Scalar*>(task.x);
    auto* w = static_cast<const Scalar*>(task.w) + row * w_stride;
    float32x4_t acc[kSets][R][M] = {};
    int64_t i = 0;
    for (; i + kStep <= k; i += kStep) {
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r) __builtin_prefetch(w + r * w_stride + i + kAhead, 0, 0);
#pragma GCC unroll 8
      for (int part = 0; part < kStep / 4; ++part)
        dot_step<M, R>(acc[part % kSets], x + i + part * 4, x_stride, w + i + part * 4, w_stride);
    }
    for (; i + 4 <= k; i += 4) dot_step<M, R>(acc[0], x + i, x_stride, w + i, w_stride);
    if (i < k) {
      Scalar x_end[M][4] = {}, w_end[R][4] = {};
      for (int m = 0; m < M; ++m) copy(x_end[m], x + m * x_stride + i, k - i);
      for (int r = 0; r < R; ++r) copy(w_end[r], w + r * w_stride + i, k - i);
      dot_step<M, R>(acc[0], x_end[0], 4, w_end[0], 4);
    }
#pragma GCC unroll 8
    for (int m = 0; m < M; ++m) {
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r)
        task.sums[m * kDotPiece + row + r] =
            vaddvq_f32(kSets == 2 ? vaddq_f32(acc[0][r][m], acc[kSets - 1][r][m]) : acc[0][r][m]);
    }
  }

  // out[k][8]: the elements of 8 rows interleaved.
  static void pack(const Element* rows, int64_t stride, int64_t count, int64_t k, float* out) {
    for (int64_t half = 0; half < 8; half += 4) {
      const Scalar* row[4];
      bool present[4];
      for (int r = 0; r < 4; ++r) {
        row[r] = reinterpret_cast<const Scalar*>(rows) + (half + r) * stride;
        present[r] = half + r < count;
      }
      int64_t i = 0;
      float32x4_t v[4];
      for (; i + 4 <= k; i += 4) {
        for (int r = 0; r < 4; ++r) v[r] = present[r] ? Source::load4(row[r] + i) : vdupq_n_f32(0);
        store_transposed(v, out + i * 8 + half);
      }
      if (i == k) continue;
      for (int r = 0; r < 4; ++r) {
        Scalar end[4] = {};
        if (present[r]) copy(end, row[r] + i, k - i);
        v[r] = Source::load4(end);
      }
      store_transposed(v, out + i * 8 + half);
    }
  }

  static void tile(const float* x, const float* w, int64_t k, bool first, float* c) {
    float32x4_t left[8] = {}, right[8] = {};  // columns 0-3 and 4-7 of each row of c
    if (!first) {
#pragma GCC unroll 8
      for (int i = 0; i < 8; ++i) {
        left[i] = vld1q_f32(c + 8 * i);
        right[i] = vld1q_f32(c + 8 * i + 4);
      }
    }
    for (int64_t i = 0; i < k; ++i, x += 8, w += 8) {
      float32x4_t x_low = vld1q_f32(x), x_high = vld1q_f32(x + 4), w_low = vld1q_f32(w), w_high = vld1q_f32(w + 4);
      [&]<int... r>(std::integer_sequence<int, r...>) {
        ((left[r] = vfmaq_laneq_f32(left[r], w_low, r < 4 ? x_low : x_high, r % 4)), ...);
        ((right[r] = vfmaq_laneq_f32(right[r], w_high, r < 4 ? x_low : x_high, r % 4)), ...);
      }
      (std::make_integer_sequence<int, 8>{});
    }
#pragma GCC unroll 8
    for (int i = 0; i < 8; ++i) {
      vst1q_f32(c + 8 * i, left[i]);
      vst1q_f32(c + 8 * i + 4, right[i]);
    }
  }

 private:
  static void copy(Scalar* to, const Scalar* from, int64_t count) {
    std::memcpy(to, from, static_cast<size_t>(count) * sizeof(Scalar));
  }

  // Row j of the 4x4 block's transpose goes to out + 8 j.
  static void store_transposed(const float32x4_t (&v)[4], float* out) {
    float64x2_t a = vreinterpretq_f64_f32(vtrn1q_f32(v[0], v[1])), b = vreinterpretq_f64_f32(vtrn2q_f32(v[0], v[1]));
    float64x2_t c = vreinterpretq_f64_f32(vtrn1q_f32(v[2], v[3])), d = vreinterpretq_f64_f32(vtrn2q_f32(v[2], v[3]));
    vst1q_f32(out, vreinterpretq_f32_f64(vtrn1q_f64(a, c)));
    vst1q_f32(out + 8, vreinterpretq_f32_f64(vtrn1q_f64(b, d)));
    vst1q_f32(out + 16, vreinterpretq_f32_f64(vtrn2q_f64(a, c)));
    vst1q_f32(out + 24, vreinterpretq_f32_f64(vtrn2q_f64(b, d)));
  }
};

float widened(uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }

// Eight sums hide the latency of FMLA. ZIP with zeros widens in both vector pipes of a Neoverse-N1, a shift in one.
float dot_widened(const uint16_t* w, const float* x, int64_t k) {
  const uint16x8_t zero = vdupq_n_u16(0);
  float32x4_t sums[8];
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i) sums[i] = vdupq_n_f32(0);
  int64_t at = 0;
  for (; at + 32 <= k; at += 32) {
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      uint16x8_t eight = vld1q_u16(w + at + 8 * i);
      float32x4_t low = vreinterpretq_f32_u16(vzip1q_u16(zero, eight)),
                  high = vreinterpretq_f32_u16(vzip2q_u16(zero, eight));
      sums[2 * i] = vfmaq_f32(sums[2 * i], low, vld1q_f32(x + at + 8 * i));
      sums[2 * i + 1] = vfmaq_f32(sums[2 * i + 1], high, vld1q_f32(x + at + 8 * i + 4));
    }
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) sums[i] = vaddq_f32(sums[i], sums[i + 4]);
  float sum = vaddvq_f32(vaddq_f32(vaddq_f32(sums[0], sums[1]), vaddq_f32(sums[2], sums[3])));
  for (; at < k; ++at) sum += widened(w[at]) * x[at];
  return sum;
}

// A single row of x in bf16, widened once for all rows of w: to widen both takes longer than to read w from memory.
// Rows of w are read one after the other, as one stretch of memory. The hardware prefetches that better than
// instructions prefetch four rows at once.
void dot_one_row(const DotTask& task) {
  constexpr int64_t kPiece = 8192;  // elements of x: half of the L1 cache
  float wide_x[kPiece];
  auto* x = static_cast<const uint16_t*>(task.x);
  auto* w = static_cast<const uint16_t*>(task.w);
  for (int64_t first = 0; first < task.k; first += kPiece) {
    const int64_t count = std::min(kPiece, task.k - first);
    for (int64_t i = 0; i < count; ++i) wide_x[i] = widened(x[first + i]);
    for (int64_t row = 0; row < task.rows; ++row) {
      float sum = dot_widened(w + row * task.w_stride + first, wide_x, count);
      task.sums[row] = first == 0 ? sum : task.sums[row] + sum;
    }
  }
}

}  // namespace

void matmul_neon_f32(const MatmulArgs& args, ThreadPool& pool) { matmul_neon<Fmla<Plain>>(args, pool); }

void matmul_neon_widen_bf16(const MatmulArgs& args, ThreadPool& pool) {
  if (args.m == 1 && args.n > 0 && args.k > 0 && !batch_invariant()) return matmul_dot(args, pool, dot_one_row);
  matmul_neon<Fmla<Widened>>(args, pool);
}

}  // namespace fk
