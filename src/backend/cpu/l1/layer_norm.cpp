// LayerNorm on CPU: rows are distributed over the threads.
#include "ops/l1/layer_norm.h"

#include <cmath>

#include "backend/cpu/row_kernel.h"
#include "backend/cpu/simd.h"
#include "ops/register.h"

namespace fk {
namespace {

// The addresses of one row; residual, residual_out and bias may be null.
template <class T>
struct NormedRow {
  const T *x, *residual, *weight, *bias;
  T *out, *residual_out;
};

// Read from memory once: the later loops find the row in L1.
template <class T>
FK_INLINE void layer_norm_body(const NormedRow<T>& row, int64_t n, float eps) {
  const T* x = row.x;
  if (row.residual != nullptr) {
    // The sum is rounded to T before it is normed, so that out is consistent with the residual_out that the next layer
    // reads.
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) store(row.residual_out[i], load(x[i]) + load(row.residual[i]));
    x = row.residual_out;
  }
  float mean = lane_sum(n, [&](int64_t i) { return load(x[i]); }) / static_cast<float>(n);
  float squares = lane_sum(n, [&](int64_t i) { return (load(x[i]) - mean) * (load(x[i]) - mean); });
  float scale = 1.0f / std::sqrt(squares / static_cast<float>(n) + eps);
  if (row.bias == nullptr) {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) store(row.out[i], (load(x[i]) - mean) * scale * load(row.weight[i]));
    return;
  }
#pragma omp simd
  for (int64_t i = 0; i < n; ++i)
    store(row.out[i], (load(x[i]) - mean) * scale * load(row.weight[i]) + load(row.bias[i]));
}

FK_SIMD_CLONES void layer_norm(const NormedRow<bf16>& row, int64_t n, float eps) { layer_norm_body(row, n, eps); }
FK_SIMD_CLONES void layer_norm(const NormedRow<f16>& row, int64_t n, float eps) { layer_norm_body(row, n, eps); }
FK_SIMD_CLONES void layer_norm(const NormedRow<float>& row, int64_t n, float eps) { layer_norm_body(row, n, eps); }

class LayerNormRowPerThread final : public LayerNorm {
 public:
  using LayerNorm::LayerNorm;

  std::string_view refuse(Args args) const override {
    std::string_view why = refuse_call(args);
    return why.empty() ? refuse_floats({&args[0], &args[1], &args[2], &args[3]}) : why;
  }

  void forward(Context& ctx, View x, OptView residual, View out, OptView residual_out) override {
    bool heads = x.rank() == 3;
    int64_t H = heads ? x.size(1) : 1, D = x.size(-1);
    int64_t x_head = heads ? x.stride(1) : 0, out_head = heads ? out.stride(1) : 0;
    int64_t weight_head = init_.num_heads > 0 ? D : 0;
    auto eps = static_cast<float>(init_.eps);
    with_float(x.dtype(), [&]<class E>(E) {
      const E* weights = weight().ptr<E>();
      const E* biases = init_.bias ? bias()->ptr<E>() : nullptr;
      for_rows(ctx.pool, x.size(0), H * D, [&](int64_t begin, int64_t end) {
        for (int64_t t = begin; t < end; ++t)
          for (int64_t h = 0; h < H; ++h)
            layer_norm(
                NormedRow<E>{row_of<E>(x, t) + h * x_head, residual ? row_of<E>(*residual, t) : nullptr,
                             weights + h * weight_head, biases != nullptr ? biases + h * weight_head : nullptr,
                             row_of<E>(out, t) + h * out_head, residual_out ? row_of<E>(*residual_out, t) : nullptr},
                D, eps);
      });
    });
  }
};

FK_IMPLEMENTATION(LayerNorm, LayerNormRowPerThread, "cpu.row_per_thread", DeviceKind::kCpu, 0, nullptr);

}  // namespace
}  // namespace fk
