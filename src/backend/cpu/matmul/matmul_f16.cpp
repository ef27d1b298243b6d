// Products of f16 matrices on any CPU: x and every row of w are converted to f32 once, then multiplied in f32.
#include <algorithm>

#include "backend/cpu/matmul/matmul.h"
#include "backend/cpu/matmul/scratch.h"
#include "backend/cpu/matmul/split.h"
#include "backend/cpu/simd.h"

namespace fk {
namespace {

constexpr int64_t kRows = 4;  // rows of w that one pass over a row of x is multiplied with

FK_SIMD_CLONES void widen(const f16* from, float* to, int64_t n) {
  for (int64_t i = 0; i < n; ++i) to[i] = load(from[i]);
}

// sums[j] = x . w[j]
FK_SIMD_CLONES void multiply(const float* __restrict x, const float* __restrict w, int64_t k, float* sums) {
  const float *w1 = w + k, *w2 = w1 + k, *w3 = w2 + k;
  float s0 = 0, s1 = 0, s2 = 0, s3 = 0;
#pragma omp simd reduction(+ : s0, s1, s2, s3)
  for (int64_t i = 0; i < k; ++i) {
    s0 += x[i] * w[i];
    s1 += x[i] * w1[i];
    s2 += x[i] * w2[i];
    s3 += x[i] * w3[i];
  }
  sums[0] = s0, sums[1] = s1, sums[2] = s2, sums[3] = s3;
}

void store_sum(const MatmulArgs& a, int64_t m, int64_t n, float sum) {
  if (a.bias != nullptr) sum += load(static_cast<const f16*>(a.bias)[n]);
  int64_t at = m * a.y_stride + n;
  if (a.y_dtype == DType::kF16)
    store(static_cast<f16*>(a.y)[at], sum);
  else
    static_cast<float*>(a.y)[at] = sum;
}

}  // namespace

void matmul_f16(const MatmulArgs& a, ThreadPool& pool) {
  auto* x = reinterpret_cast<float*>(shared_scratch().at_least(static_cast<size_t>(a.m * a.k) * sizeof(float)));
  ScratchPerThread panels(panel_scratch(), pool.threads(), kRows * a.k * static_cast<int64_t>(sizeof(float)));
  pool.on_all([&](int thread) {
    Range rows = split_range(a.m, 1, thread, pool.threads());
    for (int64_t m = rows.begin; m < rows.end; ++m)
      widen(static_cast<const f16*>(a.x) + m * a.x_stride, x + m * a.k, a.k);
  });
  pool.on_all([&](int thread) {
    auto* panel = reinterpret_cast<float*>(panels.of(thread));
    Range columns = split_range(a.n, kRows, thread, pool.threads());
    for (int64_t n = columns.begin; n < columns.end; n += kRows) {
      int64_t count = std::min(kRows, columns.end - n);
      // Missing rows have old content: their sums are not stored.
      for (int64_t j = 0; j < count; ++j)
        widen(static_cast<const f16*>(a.w) + (n + j) * a.w_stride, panel + j * a.k, a.k);
      for (int64_t m = 0; m < a.m; ++m) {
        float sums[kRows];
        multiply(x + m * a.k, panel, a.k, sums);
        for (int64_t j = 0; j < count; ++j) store_sum(a, m, n + j, sums[j]);
      }
    }
  });
}

}  // namespace fk
