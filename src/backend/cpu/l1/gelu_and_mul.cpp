// GeluAndMul on CPU, exact and in the tanh approximation.
#include "ops/l1/gelu_and_mul.h"

#include "backend/cpu/l1/activations.h"
#include "backend/cpu/row_kernel.h"
#include "ops/register.h"

namespace fk {
namespace {

template <auto kGelu, class T>
FK_INLINE void gelu_and_mul_body(const T* gate, const T* up, T* out, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) store(out[i], kGelu(load(gate[i])) * load(up[i]));
}

FK_SIMD_CLONES void exact_row(const bf16* gate, const bf16* up, bf16* out, int64_t n) {
  gelu_and_mul_body<gelu_exact>(gate, up, out, n);
}
FK_SIMD_CLONES void exact_row(const f16* gate, const f16* up, f16* out, int64_t n) {
  gelu_and_mul_body<gelu_exact>(gate, up, out, n);
}
FK_SIMD_CLONES void exact_row(const float* gate, const float* up, float* out, int64_t n) {
  gelu_and_mul_body<gelu_exact>(gate, up, out, n);
}
FK_SIMD_CLONES void tanh_row(const bf16* gate, const bf16* up, bf16* out, int64_t n) {
  gelu_and_mul_body<gelu_tanh>(gate, up, out, n);
}
FK_SIMD_CLONES void tanh_row(const f16* gate, const f16* up, f16* out, int64_t n) {
  gelu_and_mul_body<gelu_tanh>(gate, up, out, n);
}
FK_SIMD_CLONES void tanh_row(const float* gate, const float* up, float* out, int64_t n) {
  gelu_and_mul_body<gelu_tanh>(gate, up, out, n);
}

class GeluAndMulFused final : public GeluAndMul {
 public:
  explicit GeluAndMulFused(const Init& init) : GeluAndMul(init), tanh_(init.approximate == "tanh") {}

  std::string_view refuse(Args args) const override {
    if (!tanh_ && init_.approximate != "none") return "it supports the approximations none and tanh only";
    return refuse_floats({&args[0], &args[1]});
  }

  void forward(Context& ctx, View x, View out) override {
    int64_t F = out.size(1);
    with_float(x.dtype(), [&]<class T>(T) {
      for_row_pieces(ctx.pool, out.size(0), F, [&](int64_t r, int64_t, int64_t begin, int64_t end) {
        const T* gate = row_of<T>(x, r) + begin;
        T* result = row_of<T>(out, r) + begin;
        if (tanh_)
          tanh_row(gate, gate + F, result, end - begin);
        else
          exact_row(gate, gate + F, result, end - begin);
      });
    });
  }

 private:
  const bool tanh_;
};

FK_IMPLEMENTATION(GeluAndMul, GeluAndMulFused, "cpu.fused", DeviceKind::kCpu, 0, nullptr);

}  // namespace
}  // namespace fk
