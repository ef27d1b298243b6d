#include "backend/cpu/l1/norm_rows.h"

#include <cmath>

#include "backend/cpu/row_kernel.h"
#include "backend/cpu/simd.h"

namespace fk {
namespace {

// One row, read from memory once: the later loops find it in L1.
template <class T>
FK_INLINE void norm_row(const T* x, const T* residual, const T* weight, T* out, T* residual_out, int64_t n, float eps,
                        float weight_offset) {
  if (residual != nullptr) {
    // The sum is rounded to T before it is normalised, so that out is consistent with the residual_out that the next
    // layer reads.
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) store(residual_out[i], load(x[i]) + load(residual[i]));
    x = residual_out;
  }
  float squares = lane_sum(n, [&](int64_t i) { return load(x[i]) * load(x[i]); });
  float scale = 1.0f / std::sqrt(squares / static_cast<float>(n) + eps);
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) store(out[i], load(x[i]) * scale * (load(weight[i]) + weight_offset));
}

FK_SIMD_CLONES void normalise(const bf16* x, const bf16* residual, const bf16* weight, bf16* out, bf16* residual_out,
                              int64_t n, float eps, float weight_offset) {
  norm_row(x, residual, weight, out, residual_out, n, eps, weight_offset);
}
FK_SIMD_CLONES void normalise(const f16* x, const f16* residual, const f16* weight, f16* out, f16* residual_out,
                              int64_t n, float eps, float weight_offset) {
  norm_row(x, residual, weight, out, residual_out, n, eps, weight_offset);
}
FK_SIMD_CLONES void normalise(const float* x, const float* residual, const float* weight, float* out,
                              float* residual_out, int64_t n, float eps, float weight_offset) {
  norm_row(x, residual, weight, out, residual_out, n, eps, weight_offset);
}

}  // namespace

std::string_view refuse_norm(Args args) {
  if (args[1].has_value() != args[3].has_value()) return "residual and residual_out come together";
  if (args[1] && args[0]->rank() != 2) return "a residual is added to rows of tokens only, not of heads";
  return refuse_floats({&args[0], &args[1], &args[2], &args[3]});
}

void norm_rows(ThreadPool& pool, const NormRows& call) {
  const View &x = call.x, &out = call.out;
  bool heads = x.rank() == 3;
  int64_t T = x.size(0), H = heads ? x.size(1) : 1, D = x.size(-1);
  int64_t x_head = heads ? x.stride(1) : 0, out_head = heads ? out.stride(1) : 0;
  auto eps = static_cast<float>(call.eps), weight_offset = static_cast<float>(call.weight_offset);
  with_float(x.dtype(), [&]<class E>(E) {
    const E* weight = call.weight.ptr<E>();
    for_rows(pool, T, H * D, [&](int64_t begin, int64_t end) {
      for (int64_t t = begin; t < end; ++t) {
        const E* residual = call.residual ? row_of<E>(*call.residual, t) : nullptr;
        E* residual_out = call.residual_out ? row_of<E>(*call.residual_out, t) : nullptr;
        for (int64_t h = 0; h < H; ++h)
          normalise(row_of<E>(x, t) + h * x_head, residual, weight, row_of<E>(out, t) + h * out_head, residual_out, D,
                    eps, weight_offset);
      }
    });
  });
}

}  // namespace fk
