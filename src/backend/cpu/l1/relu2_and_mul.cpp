// Relu2AndMul on CPU.
#include "ops/l1/relu2_and_mul.h"

#include "backend/cpu/row_kernel.h"
#include "backend/cpu/simd.h"
#include "ops/register.h"

namespace fk {
namespace {

template <class T>
FK_INLINE void relu2_and_mul_body(const T* gate, const T* up, T* out, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    float g = load(gate[i]);
    g = g < 0 ? 0.0f : g;
    store(out[i], g * g * load(up[i]));
  }
}

FK_SIMD_CLONES void relu2_and_mul(const bf16* gate, const bf16* up, bf16* out, int64_t n) {
  relu2_and_mul_body(gate, up, out, n);
}
FK_SIMD_CLONES void relu2_and_mul(const f16* gate, const f16* up, f16* out, int64_t n) {
  relu2_and_mul_body(gate, up, out, n);
}
FK_SIMD_CLONES void relu2_and_mul(const float* gate, const float* up, float* out, int64_t n) {
  relu2_and_mul_body(gate, up, out, n);
}

class Relu2AndMulFused final : public Relu2AndMul {
 public:
  using Relu2AndMul::Relu2AndMul;

  std::string_view refuse(Args args) const override { return refuse_floats({&args[0], &args[1]}); }

  void forward(Context& ctx, View x, View out) override {
    int64_t F = out.size(1);
    with_float(x.dtype(), [&]<class T>(T) {
      for_row_pieces(ctx.pool, out.size(0), F, [&](int64_t r, int64_t, int64_t begin, int64_t end) {
        const T* gate = row_of<T>(x, r) + begin;
        relu2_and_mul(gate, gate + F, row_of<T>(out, r) + begin, end - begin);
      });
    });
  }
};

FK_IMPLEMENTATION(Relu2AndMul, Relu2AndMulFused, "cpu.fused", DeviceKind::kCpu, 0, nullptr);

}  // namespace
}  // namespace fk
