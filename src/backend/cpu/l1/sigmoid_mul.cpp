// SigmoidMul on CPU.
#include "ops/l1/sigmoid_mul.h"

#include "backend/cpu/l1/activations.h"
#include "backend/cpu/row_kernel.h"
#include "ops/register.h"

namespace fk {
namespace {

template <class T>
FK_INLINE void sigmoid_mul_body(const T* x, const T* gate, T* out, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) store(out[i], load(x[i]) * logistic_function(load(gate[i])));
}
FK_SIMD_CLONES void sigmoid_mul_row(const bf16* x, const bf16* gate, bf16* out, int64_t n) {
  sigmoid_mul_body(x, gate, out, n);
}
FK_SIMD_CLONES void sigmoid_mul_row(const f16* x, const f16* gate, f16* out, int64_t n) {
  sigmoid_mul_body(x, gate, out, n);
}
FK_SIMD_CLONES void sigmoid_mul_row(const float* x, const float* gate, float* out, int64_t n) {
  sigmoid_mul_body(x, gate, out, n);
}

class SigmoidMulRows final : public SigmoidMul {
 public:
  using SigmoidMul::SigmoidMul;

  std::string_view refuse(Args args) const override { return refuse_floats({&args[0], &args[1], &args[2]}); }

  void forward(Context& ctx, View x, View gate, View out) override {
    const int64_t H = x.size(1), D = x.size(2);
    with_float(x.dtype(), [&]<class T>(T) {
      for_rows(ctx.pool, x.size(0), H * D, [&](int64_t begin, int64_t end) {
        for (int64_t t = begin; t < end; ++t)
          for (int64_t h = 0; h < H; ++h)
            sigmoid_mul_row(row_of<T>(x, t) + h * x.stride(1), row_of<T>(gate, t) + h * gate.stride(1),
                            row_of<T>(out, t) + h * out.stride(1), D);
      });
    });
  }
};

FK_IMPLEMENTATION(SigmoidMul, SigmoidMulRows, "cpu.rows", DeviceKind::kCpu, 0, nullptr);

}  // namespace
}  // namespace fk
