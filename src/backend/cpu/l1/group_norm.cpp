// GroupNorm on CPU.
#include "ops/l1/group_norm.h"

#include <cmath>

#include "backend/cpu/row_kernel.h"
#include "backend/cpu/simd.h"
#include "ops/register.h"

namespace fk {
namespace {

template <class T>
FK_INLINE void group_norm_body(const T* x, const T* weight, const T* bias, T* out, int64_t n, float eps) {
  const float mean = lane_sum(n, [&](int64_t i) { return load(x[i]); }) / static_cast<float>(n);
  const float squares = lane_sum(n, [&](int64_t i) { return (load(x[i]) - mean) * (load(x[i]) - mean); });
  const float scale = 1.0f / std::sqrt(squares / static_cast<float>(n) + eps);
  if (bias == nullptr) {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) store(out[i], (load(x[i]) - mean) * scale * load(weight[i]));
    return;
  }
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) store(out[i], (load(x[i]) - mean) * scale * load(weight[i]) + load(bias[i]));
}
FK_SIMD_CLONES void group_norm_of(const bf16* x, const bf16* weight, const bf16* bias, bf16* out, int64_t n,
                                  float eps) {
  group_norm_body(x, weight, bias, out, n, eps);
}
FK_SIMD_CLONES void group_norm_of(const f16* x, const f16* weight, const f16* bias, f16* out, int64_t n, float eps) {
  group_norm_body(x, weight, bias, out, n, eps);
}
FK_SIMD_CLONES void group_norm_of(const float* x, const float* weight, const float* bias, float* out, int64_t n,
                                  float eps) {
  group_norm_body(x, weight, bias, out, n, eps);
}

class GroupNormRows final : public GroupNorm {
 public:
  using GroupNorm::GroupNorm;

  std::string_view refuse(Args args) const override { return refuse_floats({&args[0], &args[1]}); }

  void forward(Context& ctx, View x, View out) override {
    const int64_t D = init_.hidden_size, n = D / init_.num_groups;
    with_float(x.dtype(), [&]<class T>(T) {
      const T *w = weight().ptr<T>(), *b = init_.bias ? bias()->ptr<T>() : nullptr;
      for_rows(ctx.pool, x.size(0), D, [&](int64_t begin, int64_t end) {
        for (int64_t t = begin; t < end; ++t)
          for (int64_t i = 0; i < D; i += n)
            group_norm_of(row_of<T>(x, t) + i, w + i, b == nullptr ? nullptr : b + i, row_of<T>(out, t) + i, n,
                          static_cast<float>(init_.eps));
      });
    });
  }
};

FK_IMPLEMENTATION(GroupNorm, GroupNormRows, "cpu.rows", DeviceKind::kCpu, 0, nullptr);

}  // namespace
}  // namespace fk
