// SiluAndMul on CPU.
#include "ops/l1/silu_and_mul.h"

#include "backend/cpu/row_kernel.h"
#include "backend/cpu/vector_math.h"
#include "ops/register.h"

namespace fk {
namespace {

template <class T>
FK_INLINE void silu_and_mul_body(const T* gate, const T* up, T* out, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    float g = load(gate[i]);
    store(out[i], g / (1.0f + vexp_bounded(-g)) * load(up[i]));
  }
}

FK_SIMD_CLONES void silu_and_mul(const bf16* gate, const bf16* up, bf16* out, int64_t n) {
  silu_and_mul_body(gate, up, out, n);
}
FK_SIMD_CLONES void silu_and_mul(const f16* gate, const f16* up, f16* out, int64_t n) {
  silu_and_mul_body(gate, up, out, n);
}
FK_SIMD_CLONES void silu_and_mul(const float* gate, const float* up, float* out, int64_t n) {
  silu_and_mul_body(gate, up, out, n);
}

class SiluAndMulFused final : public SiluAndMul {
 public:
  using SiluAndMul::SiluAndMul;

  std::string_view refuse(Args args) const override { return refuse_floats({&args[0], &args[1]}); }

  void forward(Context& ctx, View x, View out) override {
    int64_t F = out.size(1);
    with_float(x.dtype(), [&]<class T>(T) {
      for_row_pieces(ctx.pool, out.size(0), F, [&](int64_t r, int64_t, int64_t begin, int64_t end) {
        const T* gate = row_of<T>(x, r) + begin;
        silu_and_mul(gate, gate + F, row_of<T>(out, r) + begin, end - begin);
      });
    });
  }
};

FK_IMPLEMENTATION(SiluAndMul, SiluAndMulFused, "cpu.fused", DeviceKind::kCpu, 0, nullptr);

}  // namespace
}  // namespace fk
