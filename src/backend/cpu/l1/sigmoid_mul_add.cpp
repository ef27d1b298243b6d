// SigmoidMulAdd on CPU.
#include "ops/l1/sigmoid_mul_add.h"

#include <cmath>

#include "backend/cpu/row_kernel.h"
#include "backend/cpu/simd.h"
#include "ops/register.h"

namespace fk {
namespace {

template <class T>
FK_INLINE void mul_add_body(const T* x, float factor, const T* residual, T* out, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) store(out[i], load(x[i]) * factor + load(residual[i]));
}

FK_SIMD_CLONES void mul_add(const bf16* x, float factor, const bf16* residual, bf16* out, int64_t n) {
  mul_add_body(x, factor, residual, out, n);
}
FK_SIMD_CLONES void mul_add(const f16* x, float factor, const f16* residual, f16* out, int64_t n) {
  mul_add_body(x, factor, residual, out, n);
}
FK_SIMD_CLONES void mul_add(const float* x, float factor, const float* residual, float* out, int64_t n) {
  mul_add_body(x, factor, residual, out, n);
}

class SigmoidMulAddRows final : public SigmoidMulAdd {
 public:
  using SigmoidMulAdd::SigmoidMulAdd;

  std::string_view refuse(Args args) const override {
    if (args[1]->dtype() != DType::kF32) return "gate must be f32";
    return refuse_floats({&args[0], &args[2], &args[3]});
  }

  void forward(Context& ctx, View x, View gate, View residual, View out) override {
    with_float(x.dtype(), [&]<class T>(T) {
      for_row_pieces(ctx.pool, out.size(0), out.size(1), [&](int64_t r, int64_t, int64_t begin, int64_t end) {
        float factor = 1 / (1 + std::exp(-*row_of<float>(gate, r)));
        mul_add(row_of<T>(x, r) + begin, factor, row_of<T>(residual, r) + begin, row_of<T>(out, r) + begin,
                end - begin);
      });
    });
  }
};

FK_IMPLEMENTATION(SigmoidMulAdd, SigmoidMulAddRows, "cpu.rows", DeviceKind::kCpu, 0, nullptr);

}  // namespace
}  // namespace fk
