// RMSNormGated on CPU.
#include "ops/l1/rms_norm_gated.h"

#include <cmath>

#include "backend/cpu/for_items.h"
#include "backend/cpu/row_kernel.h"
#include "backend/cpu/vector_math.h"
#include "ops/register.h"

namespace fk {
namespace {

struct GatedNorm {
  float eps;
  bool norm_first, sigmoid;
};

FK_INLINE float gate_of(float g, bool sigmoid) { return (sigmoid ? 1.0f : g) / (1.0f + vexp_bounded(-g)); }

// One group; the gated row is kept in `scratch`, f32, so that it is rounded once.
template <class T>
FK_INLINE void gated_norm_body(const T* x, const T* gate, const T* weight, T* out, float* scratch, int64_t n,
                               GatedNorm how) {
  // Not conditions inside of loops, which GCC then does not vectorise on aarch64.
  if (how.norm_first) {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) scratch[i] = load(x[i]);
  } else {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) scratch[i] = load(x[i]) * gate_of(load(gate[i]), how.sigmoid);
  }
  float squares = lane_sum(n, [&](int64_t i) { return scratch[i] * scratch[i]; });
  float scale = 1.0f / std::sqrt(squares / static_cast<float>(n) + how.eps);
  if (how.norm_first) {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i)
      store(out[i], scratch[i] * scale * load(weight[i]) * gate_of(load(gate[i]), how.sigmoid));
  } else {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) store(out[i], scratch[i] * scale * load(weight[i]));
  }
}

FK_SIMD_CLONES void gated_norm(const bf16* x, const bf16* gate, const bf16* weight, bf16* out, float* scratch,
                               int64_t n, GatedNorm how) {
  gated_norm_body(x, gate, weight, out, scratch, n, how);
}
FK_SIMD_CLONES void gated_norm(const f16* x, const f16* gate, const f16* weight, f16* out, float* scratch, int64_t n,
                               GatedNorm how) {
  gated_norm_body(x, gate, weight, out, scratch, n, how);
}
FK_SIMD_CLONES void gated_norm(const float* x, const float* gate, const float* weight, float* out, float* scratch,
                               int64_t n, GatedNorm how) {
  gated_norm_body(x, gate, weight, out, scratch, n, how);
}

class RMSNormGatedGroups final : public RMSNormGated {
 public:
  using RMSNormGated::RMSNormGated;

  std::string_view refuse(Args args) const override {
    std::string_view why = refuse_call(args);
    return why.empty() ? refuse_floats({&args[0], &args[1], &args[2]}) : why;
  }

  void forward(Context& ctx, View x, View gate, View out) override {
    const bool heads = x.rank() == 3;
    const int64_t H = heads ? x.size(1) : 1, group = init_.group(), groups = init_.hidden_size / group;
    auto head = [&](const View& v) { return heads ? v.stride(1) : 0; };
    const GatedNorm how{static_cast<float>(init_.eps), init_.norm_before_gate, init_.sigmoid};
    auto* scratch = ctx.arena.make({{ctx.pool.threads(), group}, DType::kF32}).ptr<float>();
    const int64_t items = x.size(0) * H * groups, per_task = std::max<int64_t>(1, kElementsPerTask / group);
    with_float(x.dtype(), [&]<class T>(T) {
      const T* w = weight().ptr<T>();
      auto one = [&](int thread, int64_t item) {
        int64_t t = item / (H * groups), h = item / groups % H, at = item % groups * group;
        gated_norm(row_of<T>(x, t) + h * head(x) + at, row_of<T>(gate, t) + h * head(gate) + at, w + at,
                   row_of<T>(out, t) + h * head(out) + at, scratch + thread * group, group, how);
      };
      for_items(ctx.pool, (items + per_task - 1) / per_task, [&](int thread, int64_t task) {
        for (int64_t i = task * per_task; i < std::min(items, (task + 1) * per_task); ++i) one(thread, i);
      });
    });
  }
};

FK_IMPLEMENTATION(RMSNormGated, RMSNormGatedGroups, "cpu.groups", DeviceKind::kCpu, 0, nullptr);

}  // namespace
}  // namespace fk
