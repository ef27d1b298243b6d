// SiluMulQuantFp8 on CPU.
#include "ops/l1/silu_mul_quant_fp8.h"

#include "backend/cpu/l1/activations.h"
#include "backend/cpu/quantised/fp8_rows_out.h"
#include "ops/register.h"

namespace fk {
namespace {

template <class T>
FK_INLINE void silu_mul_body(const T* gate, const T* up, int64_t n, float* values) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) values[i] = silu(load(gate[i])) * load(up[i]);
}
FK_SIMD_CLONES void silu_mul(const bf16* gate, const bf16* up, int64_t n, float* values) {
  silu_mul_body(gate, up, n, values);
}
FK_SIMD_CLONES void silu_mul(const f16* gate, const f16* up, int64_t n, float* values) {
  silu_mul_body(gate, up, n, values);
}
FK_SIMD_CLONES void silu_mul(const float* gate, const float* up, int64_t n, float* values) {
  silu_mul_body(gate, up, n, values);
}

class SiluMulQuantFp8Rows final : public SiluMulQuantFp8 {
 public:
  using SiluMulQuantFp8::SiluMulQuantFp8;

  std::string_view refuse(Args args) const override { return refuse_fp8_rows(*args[0], *args[1], *args[2]); }

  void forward(Context& ctx, View x, View out, View scales) override {
    int64_t F = out.size(1);
    for_fp8_rows(ctx, out, scales, [&](int64_t t, float* values) {
      with_float(x.dtype(), [&]<class T>(T) {
        const T* gate = row_of<T>(x, t);
        silu_mul(gate, gate + F, F, values);
      });
    });
  }
};

FK_IMPLEMENTATION(SiluMulQuantFp8, SiluMulQuantFp8Rows, "cpu.row_per_thread", DeviceKind::kCpu, 0, nullptr);

}  // namespace
}  // namespace fk
