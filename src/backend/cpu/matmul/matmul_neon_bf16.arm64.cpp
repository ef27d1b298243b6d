// bf16 products with BFDOT (few rows: reads w in place) and BFMMLA (many rows: 2x4 by 4x2 blocks, packed).
#include <arm_neon.h>

#include <cstring>

#include "backend/cpu/matmul/bfmmla_tile.arm64.h"
#include "backend/cpu/matmul/matmul_neon.arm64.h"

namespace fk {
namespace {

using Bits = Bf16Bits;

// acc[r][m] += 8 elements of w's row r times those of x's row m
template <int M, int R>
FK_TARGET_BF16 inline void dot_step(float32x4_t (&acc)[R][M], const Bits* x, int64_t x_stride, const Bits* w,
                                    int64_t w_stride) {
  bfloat16x8_t rows[R];
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) rows[r] = load_bf16(w + r * w_stride);
#pragma GCC unroll 8
  for (int m = 0; m < M; ++m) {
    bfloat16x8_t token = load_bf16(x + m * x_stride);
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) acc[r][m] = vbfdotq_f32(acc[r][m], rows[r], token);
  }
}

inline uint16x8_t load_some(const Bits* p, int64_t count) {
  Bits padded[8] = {};
  std::memcpy(padded, p, static_cast<size_t>(count) * sizeof(Bits));
  return vld1q_u16(padded);
}

struct Bfmmla {
  using Element = bf16;
  using Packed = Bits;

  template <int M, int R>
  FK_TARGET_BF16 static void dot(const DotTask& task, int64_t row) {
    if constexpr (M == 1 && R > 1) {
      // One row after the other is one stretch of memory.
      for (int r = 0; r < R; ++r) dot<1, 1>(task, row + r);
      return;
    }
    constexpr int kSets = M == 1 ? 4 : 1;  // a single row of x has too few sums to hide BFDOT's latency
    constexpr int kStep = 32;              // a cache line
    // Prefetch distance: 8 KiB, into the L2 cache, where rows are read one after the other, else 1 KiB in each row.
    constexpr int kAhead = M == 1 ? 129 * kStep : 16 * kStep;
    const int64_t k = task.k, x_stride = task.x_stride, w_stride = task.w_stride;
    auto* x = static_cast<const Bits*>(task.x);
    auto* w = static_cast<const Bits*>(task.w) + row * w_stride;
    float32x4_t acc[kSets][R][M] = {};
    int64_t i = 0;
    for (; i + kStep <= k; i += kStep) {
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r) __builtin_prefetch(w + r * w_stride + i + kAhead, 0, M == 1 ? 2 : 0);
#pragma GCC unroll 8
      for (int part = 0; part < kStep / 8; ++part)
        dot_step<M, R>(acc[part % kSets], x + i + part * 8, x_stride, w + i + part * 8, w_stride);
    }
    for (; i + 8 <= k; i += 8) dot_step<M, R>(acc[0], x + i, x_stride, w + i, w_stride);
    if (i < k) {
      Bits x_end[M][8], w_end[R][8];
      for (int m = 0; m < M; ++m) vst1q_u16(x_end[m], load_some(x + m * x_stride + i, k - i));
      for (int r = 0; r < R; ++r) vst1q_u16(w_end[r], load_some(w + r * w_stride + i, k - i));
      dot_step<M, R>(acc[0], x_end[0], 8, w_end[0], 8);
    }
#pragma GCC unroll 8
    for (int m = 0; m < M; ++m) {
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r) {
        float32x4_t sum = acc[0][r][m];
        if constexpr (kSets == 4) sum = vaddq_f32(vaddq_f32(sum, acc[1][r][m]), vaddq_f32(acc[2][r][m], acc[3][r][m]));
        task.sums[m * kDotPiece + row + r] = vaddvq_f32(sum);
      }
    }
  }

  // For every 4 elements of k: 4 pairs of rows, each pair as one register of BFMMLA (4 of the one, 4 of the other).
  static void pack(const bf16* rows, int64_t stride, int64_t count, int64_t k, Bits* out) {
    for (int64_t pair = 0; pair < 4; ++pair) {
      auto* a = reinterpret_cast<const Bits*>(rows) + 2 * pair * stride;
      const Bits* b = a + stride;
      bool has_a = 2 * pair < count, has_b = 2 * pair + 1 < count;
      Bits* to = out + pair * 8;
      auto interleave = [&to](uint16x8_t upper, uint16x8_t lower) {
        uint64x2_t u = vreinterpretq_u64_u16(upper), l = vreinterpretq_u64_u16(lower);
        vst1q_u16(to, vreinterpretq_u16_u64(vzip1q_u64(u, l)));
        vst1q_u16(to + 32, vreinterpretq_u16_u64(vzip2q_u64(u, l)));
        to += 64;
      };
      uint16x8_t zero = vdupq_n_u16(0);
      int64_t i = 0;
      for (; i + 8 <= k; i += 8) interleave(has_a ? vld1q_u16(a + i) : zero, has_b ? vld1q_u16(b + i) : zero);
      if (i < k) interleave(has_a ? load_some(a + i, k - i) : zero, has_b ? load_some(b + i, k - i) : zero);
    }
  }

  FK_TARGET_BF16 static void tile(const Bits* x, const Bits* w, int64_t k, bool first, float* c) {
    bfmmla_tile(x, w, k, first, c);
  }
};

}  // namespace

void matmul_neon_bf16(const MatmulArgs& args, ThreadPool& pool) { matmul_neon<Bfmmla>(args, pool); }

}  // namespace fk
