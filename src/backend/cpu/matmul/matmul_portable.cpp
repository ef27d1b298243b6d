#include "backend/cpu/matmul/matmul.h"
#include "backend/cpu/matmul/split.h"

namespace fk {
namespace {

// Partial sums that the compiler can keep in vector registers of any width; this fixes the order of summation.
constexpr int kLanes = 16;

template <class T>
float dot(const T* a, const T* b, int64_t k) {
  float lane[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= k; i += kLanes)
    for (int j = 0; j < kLanes; ++j) lane[j] += static_cast<float>(a[i + j]) * static_cast<float>(b[i + j]);
  for (int j = 0; i < k; ++i, ++j) lane[j] += static_cast<float>(a[i]) * static_cast<float>(b[i]);
  for (int half = kLanes / 2; half > 0; half /= 2)
    for (int j = 0; j < half; ++j) lane[j] += lane[j + half];
  return lane[0];
}

template <class T, class Out>
void multiply(const MatmulArgs& a, ThreadPool& pool) {
  auto* x = static_cast<const T*>(a.x);
  auto* w = static_cast<const T*>(a.w);
  auto* bias = static_cast<const T*>(a.bias);
  auto* y = static_cast<Out*>(a.y);
  pool.on_all([&](int thread) {
    Range rows = split_range(a.n, 1, thread, pool.threads());
    for (int64_t n = rows.begin; n < rows.end; ++n) {
      float start = bias == nullptr ? 0.0f : static_cast<float>(bias[n]);
      for (int64_t m = 0; m < a.m; ++m)
        y[m * a.y_stride + n] = static_cast<Out>(start + dot(x + m * a.x_stride, w + n * a.w_stride, a.k));
    }
  });
}

}  // namespace

void matmul_portable(const MatmulArgs& args, ThreadPool& pool) {
  bool to_bf16 = args.y_dtype == DType::kBF16;
  if (args.dtype == DType::kBF16) return to_bf16 ? multiply<bf16, bf16>(args, pool) : multiply<bf16, float>(args, pool);
  return to_bf16 ? multiply<float, bf16>(args, pool) : multiply<float, float>(args, pool);
}

}  // namespace fk
