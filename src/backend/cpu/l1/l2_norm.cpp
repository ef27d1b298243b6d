// L2Norm on CPU.
#include "ops/l1/l2_norm.h"

#include <cmath>

#include "backend/cpu/row_kernel.h"
#include "backend/cpu/simd.h"
#include "ops/register.h"

namespace fk {
namespace {

template <class T>
FK_INLINE void l2_norm_body(const T* x, T* out, int64_t n, float eps) {
  float squares = lane_sum(n, [&](int64_t i) { return load(x[i]) * load(x[i]); });
  float scale = 1.0f / std::sqrt(squares + eps);
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) store(out[i], load(x[i]) * scale);
}
FK_SIMD_CLONES void l2_norm_row(const bf16* x, bf16* out, int64_t n, float eps) { l2_norm_body(x, out, n, eps); }
FK_SIMD_CLONES void l2_norm_row(const f16* x, f16* out, int64_t n, float eps) { l2_norm_body(x, out, n, eps); }
FK_SIMD_CLONES void l2_norm_row(const float* x, float* out, int64_t n, float eps) { l2_norm_body(x, out, n, eps); }

class L2NormRows final : public L2Norm {
 public:
  using L2Norm::L2Norm;

  std::string_view refuse(Args args) const override { return refuse_floats({&args[0], &args[1]}); }

  void forward(Context& ctx, View x, View out) override {
    const int64_t H = x.size(1), D = x.size(2);
    with_float(x.dtype(), [&]<class T>(T) {
      for_rows(ctx.pool, x.size(0), H * D, [&](int64_t begin, int64_t end) {
        for (int64_t t = begin; t < end; ++t)
          for (int64_t h = 0; h < H; ++h)
            l2_norm_row(row_of<T>(x, t) + h * x.stride(1), row_of<T>(out, t) + h * out.stride(1), D,
                        static_cast<float>(init_.eps));
      });
    });
  }
};

FK_IMPLEMENTATION(L2Norm, L2NormRows, "cpu.rows", DeviceKind::kCpu, 0, nullptr);

}  // namespace
}  // namespace fk
