// SoftCap on CPU.
#include "ops/l1/soft_cap.h"

#include "backend/cpu/l1/activations.h"
#include "backend/cpu/row_kernel.h"
#include "ops/register.h"

namespace fk {
namespace {

template <class T>
FK_INLINE void soft_cap_body(const T* x, T* out, int64_t n, float cap, float inverse) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) store(out[i], cap * hyperbolic_tangent(load(x[i]) * inverse));
}
FK_SIMD_CLONES void soft_cap(const bf16* x, bf16* out, int64_t n, float cap, float inverse) {
  soft_cap_body(x, out, n, cap, inverse);
}
FK_SIMD_CLONES void soft_cap(const f16* x, f16* out, int64_t n, float cap, float inverse) {
  soft_cap_body(x, out, n, cap, inverse);
}
FK_SIMD_CLONES void soft_cap(const float* x, float* out, int64_t n, float cap, float inverse) {
  soft_cap_body(x, out, n, cap, inverse);
}

class SoftCapRows final : public SoftCap {
 public:
  using SoftCap::SoftCap;

  std::string_view refuse(Args args) const override { return refuse_floats({&args[0], &args[1]}); }

  void forward(Context& ctx, View x, View out) override {
    auto cap = static_cast<float>(init_.cap), inverse = static_cast<float>(1 / init_.cap);
    with_float(x.dtype(), [&]<class T>(T) {
      for_row_pieces(ctx.pool, out.size(0), out.size(1), [&](int64_t r, int64_t, int64_t begin, int64_t end) {
        soft_cap(row_of<T>(x, r) + begin, row_of<T>(out, r) + begin, end - begin, cap, inverse);
      });
    });
  }
};

FK_IMPLEMENTATION(SoftCap, SoftCapRows, "cpu.rows", DeviceKind::kCpu, 0, nullptr);

}  // namespace
}  // namespace fk
