// UnweightedRMSNorm on CPU.
#include "ops/l1/unweighted_rms_norm.h"

#include <cmath>

#include "backend/cpu/row_kernel.h"
#include "backend/cpu/simd.h"
#include "ops/register.h"

namespace fk {
namespace {

template <class T>
FK_INLINE void norm_body(const T* x, T* out, int64_t n, float eps) {
  float squares = lane_sum(n, [&](int64_t i) { return load(x[i]) * load(x[i]); });
  float scale = 1.0f / std::sqrt(squares / static_cast<float>(n) + eps);
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) store(out[i], load(x[i]) * scale);
}
FK_SIMD_CLONES void unweighted_norm(const bf16* x, bf16* out, int64_t n, float eps) { norm_body(x, out, n, eps); }
FK_SIMD_CLONES void unweighted_norm(const f16* x, f16* out, int64_t n, float eps) { norm_body(x, out, n, eps); }
FK_SIMD_CLONES void unweighted_norm(const float* x, float* out, int64_t n, float eps) { norm_body(x, out, n, eps); }

class UnweightedRMSNormRows final : public UnweightedRMSNorm {
 public:
  using UnweightedRMSNorm::UnweightedRMSNorm;

  std::string_view refuse(Args args) const override { return refuse_floats({&args[0], &args[1]}); }

  void forward(Context& ctx, View x, View out) override {
    const int64_t H = x.size(1), D = init_.hidden_size;
    with_float(x.dtype(), [&]<class T>(T) {
      for_rows(ctx.pool, x.size(0), H * D, [&](int64_t begin, int64_t end) {
        for (int64_t t = begin; t < end; ++t)
          for (int64_t h = 0; h < H; ++h)
            unweighted_norm(row_of<T>(x, t) + h * x.stride(1), row_of<T>(out, t) + h * out.stride(1), D,
                            static_cast<float>(init_.eps));
      });
    });
  }
};

FK_IMPLEMENTATION(UnweightedRMSNorm, UnweightedRMSNormRows, "cpu.rows", DeviceKind::kCpu, 0, nullptr);

}  // namespace
}  // namespace fk
