// FusedAddcmulRWKV7 on CPU.
#include "ops/l1/fused_addcmul_rwkv7.h"

#include "backend/cpu/row_kernel.h"
#include "backend/cpu/simd.h"
#include "ops/register.h"

namespace fk {
namespace {

template <class T>
FK_INLINE void addcmul_body(const T* x, const T* delta, const T* weight, T* out, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) store(out[i], load(x[i]) + load(delta[i]) * load(weight[i]));
}
FK_SIMD_CLONES void addcmul_row(const bf16* x, const bf16* delta, const bf16* weight, bf16* out, int64_t n) {
  addcmul_body(x, delta, weight, out, n);
}
FK_SIMD_CLONES void addcmul_row(const f16* x, const f16* delta, const f16* weight, f16* out, int64_t n) {
  addcmul_body(x, delta, weight, out, n);
}
FK_SIMD_CLONES void addcmul_row(const float* x, const float* delta, const float* weight, float* out, int64_t n) {
  addcmul_body(x, delta, weight, out, n);
}

class FusedAddcmulRows final : public FusedAddcmulRWKV7 {
 public:
  using FusedAddcmulRWKV7::FusedAddcmulRWKV7;

  std::string_view refuse(Args args) const override {
    if (!args[2]->contiguous()) return "out must have no gaps";
    return refuse_floats({&args[0], &args[1], &args[2]});
  }

  void forward(Context& ctx, View x, View delta, View out) override {
    const int64_t T = x.size(0), D = init_.hidden_size;
    with_float(x.dtype(), [&]<class E>(E) {
      for_rows(ctx.pool, T, parts() * D, [&](int64_t begin, int64_t end) {
        for (int64_t t = begin; t < end; ++t)
          for (int64_t p = 0; p < parts(); ++p)
            addcmul_row(row_of<E>(x, t), row_of<E>(delta, t), param(static_cast<size_t>(p)).ptr<E>(),
                        out.ptr<E>() + (p * T + t) * D, D);
      });
    });
  }
};

FK_IMPLEMENTATION(FusedAddcmulRWKV7, FusedAddcmulRows, "cpu.rows", DeviceKind::kCpu, 0, nullptr);

}  // namespace
}  // namespace fk
