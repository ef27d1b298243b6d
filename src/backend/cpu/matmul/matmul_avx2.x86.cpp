// Matrix products with AVX2 and FMA. bf16 becomes f32 by a shift: when x is packed, and when a group of w is used.
#include <immintrin.h>

#include <cstddef>

#include "backend/cpu/matmul/matmul_blocked.h"
#include "backend/cpu/matmul/matmul_dot.h"
#include "ops/batch_invariant.h"

#define FK_AVX2 __attribute__((target("avx2,fma")))
#define FK_AVX2_INLINE FK_AVX2 __attribute__((always_inline)) inline

namespace fk {
namespace {

constexpr int64_t kLanes = 8;

FK_AVX2_INLINE float horizontal_sum(__m256 v) {
  __m128 s = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  s = _mm_add_ps(s, _mm_movehl_ps(s, s));
  return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
}

// The first `n` of eight lanes.
FK_AVX2_INLINE __m256i first8(int64_t n) {
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(n)), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

// Eight elements as f32, whole or the first `n` with zeros behind.
FK_AVX2_INLINE __m256 load8(const float* p) { return _mm256_loadu_ps(p); }
FK_AVX2_INLINE __m256 load8(const bf16* p) {
  __m128i bits = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16));
}
FK_AVX2_INLINE __m256 load_first8(const float* p, int64_t n) {
  return n >= 8 ? load8(p) : _mm256_maskload_ps(p, first8(n));
}
FK_AVX2_INLINE __m256 load_first8(const bf16* p, int64_t n) {
  if (n >= 8) return load8(p);
  bf16 whole[8] = {};
  __builtin_memcpy(whole, p, static_cast<size_t>(n) * sizeof(bf16));
  return load8(whole);
}

template <class T, int M, int R>
FK_AVX2 void dot_rows(const DotTask& task, int64_t row, int64_t m) {
  auto* w = static_cast<const T*>(task.w) + row * task.w_stride;
  auto* x = static_cast<const T*>(task.x) + m * task.x_stride;
  __m256 sum[R][M];
  for (int r = 0; r < R; ++r)
    for (int i = 0; i < M; ++i) sum[r][i] = _mm256_setzero_ps();
  int64_t k = 0;
  for (; k + 8 <= task.k; k += 8) {
    __m256 wide[R];
    for (int r = 0; r < R; ++r) wide[r] = load8(w + r * task.w_stride + k);
    for (int i = 0; i < M; ++i) {
      __m256 rows = load8(x + i * task.x_stride + k);
      for (int r = 0; r < R; ++r) sum[r][i] = _mm256_fmadd_ps(wide[r], rows, sum[r][i]);
    }
  }
  if (int64_t rest = task.k - k; rest > 0) {
    for (int r = 0; r < R; ++r) {
      __m256 wide = load_first8(w + r * task.w_stride + k, rest);
      for (int i = 0; i < M; ++i)
        sum[r][i] = _mm256_fmadd_ps(wide, load_first8(x + i * task.x_stride + k, rest), sum[r][i]);
    }
  }
  for (int i = 0; i < M; ++i)
    for (int r = 0; r < R; ++r) task.sums[(m + i) * kDotPiece + row + r] = horizontal_sum(sum[r][i]);
}

template <class T, int R>
FK_AVX2 void dot_group(const DotTask& task, int64_t row) {
  int64_t m = 0;
  for (; m + 3 < task.m; m += 2) dot_rows<T, 2, R>(task, row, m);
  switch (task.m - m) {
    case 1:
      return dot_rows<T, 1, R>(task, row, m);
    case 2:
      return dot_rows<T, 2, R>(task, row, m);
    default:
      return dot_rows<T, 3, R>(task, row, m);
  }
}

template <class T>
FK_AVX2 void dot(const DotTask& task) {
  int64_t row = 0;
  // Eight rows in parallel keep eight hardware prefetchers busy; sums of more rows of x would not fit in the registers.
  if (task.m == 1)
    for (; row + 8 <= task.rows; row += 8) dot_rows<T, 1, 8>(task, row, 0);
  for (; row + 4 <= task.rows; row += 4) dot_group<T, 4>(task, row);
  for (; row < task.rows; ++row) dot_group<T, 1>(task, row);
}

// 4 rows of w by 3 vectors of x: 12 of the 16 registers are sums.
constexpr int64_t kGroup = 4, kVectors = 3, kSteps = 256;

FK_AVX2_INLINE void transpose8(__m256 (&r)[8]) {
  __m256 t[8];
  for (int i = 0; i < 8; i += 2) {
    t[i] = _mm256_unpacklo_ps(r[i], r[i + 1]);
    t[i + 1] = _mm256_unpackhi_ps(r[i], r[i + 1]);
  }
  for (int i = 0; i < 8; i += 4) {
    r[i] = _mm256_shuffle_ps(t[i], t[i + 2], 0x44);
    r[i + 1] = _mm256_shuffle_ps(t[i], t[i + 2], 0xee);
    r[i + 2] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0x44);
    r[i + 3] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0xee);
  }
  for (int i = 0; i < 4; ++i) {
    t[i] = _mm256_permute2f128_ps(r[i], r[i + 4], 0x20);
    t[i + 4] = _mm256_permute2f128_ps(r[i], r[i + 4], 0x31);
  }
  for (int i = 0; i < 8; ++i) r[i] = t[i];
}

template <class T>
FK_AVX2 void pack(const PackTask& task) {
  for (int64_t m = 0; m < task.width; m += kLanes) {
    auto* x = static_cast<const T*>(task.x) + m * task.x_stride;
    for (int64_t k = 0; k < task.k; k += 8) {
      __m256 r[8];
      for (int i = 0; i < 8; ++i)
        r[i] = m + i < task.rows ? load_first8(x + i * task.x_stride + k, task.k - k) : _mm256_setzero_ps();
      transpose8(r);
      float* out = static_cast<float*>(task.panel) + k * task.width + m;
#pragma GCC unroll 8
      for (int i = 0; i < 8; ++i)
        if (k + i < task.k) _mm256_storeu_ps(out + i * task.width, r[i]);
    }
  }
}

FK_AVX2 void widen_bf16(const CopyTask& task) {
  auto* w = static_cast<const bf16*>(task.w);
  auto* wide = static_cast<float*>(task.copy);
  int64_t k = 0;
  for (; k + 8 <= task.k; k += 8) _mm256_storeu_ps(wide + k, load8(w + k));
  for (; k < task.k; ++k) wide[k] = static_cast<float>(w[k]);
}

template <int V>
FK_AVX2 void multiply_panel(const PanelTask& task) {
  __m256 sum[kGroup][V];
  for (int r = 0; r < kGroup; ++r)
    for (int v = 0; v < V; ++v)
      sum[r][v] = task.first ? _mm256_setzero_ps() : _mm256_loadu_ps(task.c + r * task.c_stride + v * kLanes);
  const float* w[kGroup];
  for (int r = 0; r < kGroup; ++r) w[r] = static_cast<const float*>(task.w[r]);
  auto* x = static_cast<const float*>(task.panel);
  for (int64_t k = 0; k < task.k; ++k, x += V * kLanes) {
    __m256 rows[V];
    for (int v = 0; v < V; ++v) rows[v] = _mm256_loadu_ps(x + v * kLanes);
    for (int r = 0; r < kGroup; ++r) {
      __m256 one = _mm256_broadcast_ss(w[r] + k);
      for (int v = 0; v < V; ++v) sum[r][v] = _mm256_fmadd_ps(one, rows[v], sum[r][v]);
    }
  }
  for (int r = 0; r < kGroup; ++r)
    for (int v = 0; v < V; ++v) _mm256_storeu_ps(task.c + r * task.c_stride + v * kLanes, sum[r][v]);
}

FK_AVX2 void multiply(const PanelTask& task) {
  switch (task.width / kLanes) {
    case 1:
      return multiply_panel<1>(task);
    case 2:
      return multiply_panel<2>(task);
    default:
      return multiply_panel<3>(task);
  }
}

// Eight rows of y at a time through a transpose; the last columns and rows go through a small buffer.
template <class Bias, class Out>
FK_AVX2 void store_as(const StoreTask& task) {
  auto* bias = static_cast<const Bias*>(task.bias);
  for (int64_t n = 0; n < task.n; n += 8) {
    int64_t columns = task.n - n < 8 ? task.n - n : 8;
    __m256 added = bias == nullptr ? _mm256_setzero_ps() : load_first8(bias + n, columns);
    for (int64_t m = 0; m < task.m; m += 8) {
      __m256 r[8];
      for (int i = 0; i < 8; ++i) r[i] = _mm256_loadu_ps(task.c + (n + i) * task.c_stride + m);
      transpose8(r);
      alignas(32) float block[8][8];
      for (int i = 0; i < 8; ++i) _mm256_store_ps(block[i], _mm256_add_ps(r[i], added));
      Out* y = static_cast<Out*>(task.y) + m * task.y_stride + n;
      for (int64_t i = 0; i < 8 && m + i < task.m; ++i)
        for (int64_t j = 0; j < columns; ++j) y[i * task.y_stride + j] = static_cast<Out>(block[i][j]);
    }
  }
}

template <class Bias>
void store(const StoreTask& task) {
  return task.y_dtype == DType::kBF16 ? store_as<Bias, bf16>(task) : store_as<Bias, float>(task);
}

constexpr int64_t kDotRows = 8;

}  // namespace

void matmul_avx2_f32(const MatmulArgs& args, ThreadPool& pool) {
  static constexpr BlockedKernel kernel{kLanes,      kVectors, kGroup,   1,           kSteps,
                                        pack<float>, nullptr,  multiply, store<float>};
  if (args.m == 0 || args.n == 0 || args.k == 0) return matmul_portable(args, pool);
  if (args.m <= kDotRows && !batch_invariant()) return matmul_dot(args, pool, dot<float>);
  matmul_blocked(args, pool, kernel);
}

void matmul_avx2_bf16(const MatmulArgs& args, ThreadPool& pool) {
  static constexpr BlockedKernel kernel{kLanes,     kVectors,   kGroup,   1,          kSteps,
                                        pack<bf16>, widen_bf16, multiply, store<bf16>};
  if (args.m == 0 || args.n == 0 || args.k == 0) return matmul_portable(args, pool);
  if (args.m <= kDotRows && !batch_invariant()) return matmul_dot(args, pool, dot<bf16>);
  matmul_blocked(args, pool, kernel);
}

}  // namespace fk
