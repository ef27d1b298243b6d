// RMSNormQuant on CPU.
#include "ops/l1/rmsnorm_quant.h"

#include <cmath>

#include "backend/cpu/quantised/fp8_rows_out.h"
#include "ops/register.h"

namespace fk {
namespace {

template <class T>
FK_INLINE void norm_body(const T* x, const T* weight, int64_t n, float eps, float* values) {
  float squares = lane_sum(n, [&](int64_t i) { return load(x[i]) * load(x[i]); });
  float scale = 1 / std::sqrt(squares / static_cast<float>(n) + eps);
  for (int64_t i = 0; i < n; ++i) values[i] = load(x[i]) * scale * load(weight[i]);
}
FK_SIMD_CLONES void norm_row(const bf16* x, const bf16* weight, int64_t n, float eps, float* values) {
  norm_body(x, weight, n, eps, values);
}
FK_SIMD_CLONES void norm_row(const f16* x, const f16* weight, int64_t n, float eps, float* values) {
  norm_body(x, weight, n, eps, values);
}
FK_SIMD_CLONES void norm_row(const float* x, const float* weight, int64_t n, float eps, float* values) {
  norm_body(x, weight, n, eps, values);
}

class RMSNormQuantRows final : public RMSNormQuant {
 public:
  using RMSNormQuant::RMSNormQuant;

  std::string_view refuse(Args args) const override {
    if (args[0]->dtype() != init_.dtype) return "x and the weight have different dtypes";
    return refuse_fp8_rows(*args[0], *args[1], *args[2]);
  }

  void forward(Context& ctx, View x, View out, View scales) override {
    for_fp8_rows(ctx, out, scales, [&](int64_t t, float* values) {
      with_float(x.dtype(), [&]<class T>(T) {
        norm_row(row_of<T>(x, t), weight().ptr<T>(), x.size(1), static_cast<float>(init_.eps), values);
      });
    });
  }
};

FK_IMPLEMENTATION(RMSNormQuant, RMSNormQuantRows, "cpu.row_per_thread", DeviceKind::kCpu, 0, nullptr);

}  // namespace
}  // namespace fk
