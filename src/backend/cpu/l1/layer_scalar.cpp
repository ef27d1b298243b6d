// LayerScalar on CPU.
#include "ops/l1/layer_scalar.h"

#include "backend/cpu/row_kernel.h"
#include "backend/cpu/simd.h"
#include "ops/register.h"

namespace fk {
namespace {

template <class T>
FK_INLINE void scaled_sum_body(const T* x, const T* residual, float factor, T* out, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) store(out[i], (load(x[i]) + load(residual[i])) * factor);
}
FK_SIMD_CLONES void scaled_sum(const bf16* x, const bf16* residual, float factor, bf16* out, int64_t n) {
  scaled_sum_body(x, residual, factor, out, n);
}
FK_SIMD_CLONES void scaled_sum(const f16* x, const f16* residual, float factor, f16* out, int64_t n) {
  scaled_sum_body(x, residual, factor, out, n);
}
FK_SIMD_CLONES void scaled_sum(const float* x, const float* residual, float factor, float* out, int64_t n) {
  scaled_sum_body(x, residual, factor, out, n);
}

class LayerScalarRows final : public LayerScalar {
 public:
  using LayerScalar::LayerScalar;

  std::string_view refuse(Args args) const override { return refuse_floats({&args[0], &args[1], &args[2]}); }

  void forward(Context& ctx, View x, View residual, View out) override {
    auto factor = static_cast<float>(load_element(weight().data(), weight().dtype()));
    with_float(x.dtype(), [&]<class T>(T) {
      for_row_pieces(ctx.pool, out.size(0), out.size(1), [&](int64_t r, int64_t, int64_t begin, int64_t end) {
        scaled_sum(row_of<T>(x, r) + begin, row_of<T>(residual, r) + begin, factor, row_of<T>(out, r) + begin,
                   end - begin);
      });
    });
  }
};

FK_IMPLEMENTATION(LayerScalar, LayerScalarRows, "cpu.rows", DeviceKind::kCpu, 0, nullptr);

}  // namespace
}  // namespace fk
