// ScaleAdd on CPU.
#include "ops/l1/scale_add.h"

#include "backend/cpu/row_kernel.h"
#include "backend/cpu/simd.h"
#include "ops/register.h"

namespace fk {
namespace {

template <class T>
FK_INLINE void scale_add_body(const T* x, const T* residual, T* out, int64_t n, float scale) {
  if (residual == nullptr) {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) store(out[i], load(x[i]) * scale);
    return;
  }
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) store(out[i], load(x[i]) * scale + load(residual[i]));
}

FK_SIMD_CLONES void scale_add(const bf16* x, const bf16* residual, bf16* out, int64_t n, float scale) {
  scale_add_body(x, residual, out, n, scale);
}
FK_SIMD_CLONES void scale_add(const f16* x, const f16* residual, f16* out, int64_t n, float scale) {
  scale_add_body(x, residual, out, n, scale);
}
FK_SIMD_CLONES void scale_add(const float* x, const float* residual, float* out, int64_t n, float scale) {
  scale_add_body(x, residual, out, n, scale);
}

class ScaleAddRows final : public ScaleAdd {
 public:
  using ScaleAdd::ScaleAdd;

  std::string_view refuse(Args args) const override { return refuse_floats({&args[0], &args[1], &args[2]}); }

  void forward(Context& ctx, View x, OptView residual, View out) override {
    auto scale = static_cast<float>(init_.scale);
    with_float(x.dtype(), [&]<class T>(T) {
      for_row_pieces(ctx.pool, out.size(0), out.size(1), [&](int64_t r, int64_t, int64_t begin, int64_t end) {
        scale_add(row_of<T>(x, r) + begin, residual ? row_of<T>(*residual, r) + begin : nullptr,
                  row_of<T>(out, r) + begin, end - begin, scale);
      });
    });
  }
};

FK_IMPLEMENTATION(ScaleAdd, ScaleAddRows, "cpu.rows", DeviceKind::kCpu, 0, nullptr);

}  // namespace
}  // namespace fk
