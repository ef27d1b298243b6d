#include "backend/cpu/l1/norm_rows.h"

#include <cmath>

#include "backend/cpu/row_kernel.h"
#include "backend/cpu/simd.h"

namespace fk {
namespace {

// One row, read from memory once: the second loop finds it in the first-level cache.
template <class T>
FK_INLINE void norm_row(const T* x, const T* residual, const T* weight, T* out, T* residual_out, int64_t n, float eps, float weight_offset) {
  float squares = 0;
  if (residual != nullptr) {
    // The sum is rounded to T before it is normalised, so that out belongs to the residual_out the next layer reads.
#pragma omp simd reduction(+ : squares)
    for (int64_t i = 0; i < n; ++i) {
      store(residual_out[i], load(x[i]) + load(residual[i]));
      float s = load(residual_out[i]);
      squares += s * s;
    }
    x = residual_out;
  } else {
#pragma omp simd reduction(+ : squares)
    for (int64_t i = 0; i < n; ++i) {
      float s = load(x[i]);
      squares += s * s;
    }
  }
  float scale = 1.0f / std::sqrt(squares / static_cast<float>(n) + eps);
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) store(out[i], load(x[i]) * scale * (load(weight[i]) + weight_offset));
}

FK_SIMD_CLONES void normalise(const bf16* x, const bf16* residual, const bf16* weight, bf16* out, bf16* residual_out, int64_t n,
                              float eps, float weight_offset) {
  norm_row(x, residual, weight, out, residual_out, n, eps, weight_offset);
}
FK_SIMD_CLONES void normalise(const float* x, const float* residual, const float* weight, float* out, float* residual_out, int64_t n,
                              float eps, float weight_offset) {
  norm_row(x, residual, weight, out, residual_out, n, eps, weight_offset);
}

}  // namespace

std::string_view refuse_norm(Args args) {
  if (args[1].has_value() != args[3].has_value()) return "residual and residual_out come together";
  return refuse_floats({&args[0], &args[1], &args[2], &args[3]});
}

void norm_rows(ThreadPool& pool, const NormRows& call) {
  int64_t n = call.x.size(-1), rows = n == 0 ? 0 : call.x.numel() / n;
  with_float(call.x.dtype(), [&]<class T>(T) {
    const T* weight = call.weight.ptr<T>();
    for_rows(pool, rows, n, [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r)
        normalise(row_of<T>(call.x, r), call.residual ? row_of<T>(*call.residual, r) : nullptr, weight, row_of<T>(call.out, r),
                  call.residual_out ? row_of<T>(*call.residual_out, r) : nullptr, n, static_cast<float>(call.eps), call.weight_offset);
    });
  });
}

}  // namespace fk
