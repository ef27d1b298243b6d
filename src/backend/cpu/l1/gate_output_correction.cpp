// GateOutputCorrection on CPU: head by head.
#include "ops/l1/gate_output_correction.h"

#include "backend/cpu/row_kernel.h"
#include "backend/cpu/simd.h"
#include "ops/register.h"

namespace fk {
namespace {

template <class T>
FK_INLINE void correct_body(const T* o, const T* r, const T* k, const T* r_k, const T* v, const T* g, T* out,
                            int64_t n) {
  const float sum = lane_sum(n, [&](int64_t i) { return load(r[i]) * load(k[i]) * load(r_k[i]); });
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) store(out[i], (load(o[i]) + sum * load(v[i])) * load(g[i]));
}
FK_SIMD_CLONES void correct_head(const bf16* o, const bf16* r, const bf16* k, const bf16* r_k, const bf16* v,
                                 const bf16* g, bf16* out, int64_t n) {
  correct_body(o, r, k, r_k, v, g, out, n);
}
FK_SIMD_CLONES void correct_head(const f16* o, const f16* r, const f16* k, const f16* r_k, const f16* v, const f16* g,
                                 f16* out, int64_t n) {
  correct_body(o, r, k, r_k, v, g, out, n);
}
FK_SIMD_CLONES void correct_head(const float* o, const float* r, const float* k, const float* r_k, const float* v,
                                 const float* g, float* out, int64_t n) {
  correct_body(o, r, k, r_k, v, g, out, n);
}

class GateOutputCorrectionHeads final : public GateOutputCorrection {
 public:
  using GateOutputCorrection::GateOutputCorrection;

  std::string_view refuse(Args args) const override {
    return refuse_floats({&args[0], &args[1], &args[2], &args[3], &args[4], &args[5]});
  }

  void forward(Context& ctx, View o, View r, View k, View v, View g, View out) override {
    const int64_t D = init_.width(), n = init_.head_dim;
    with_float(o.dtype(), [&]<class T>(T) {
      for_rows(ctx.pool, o.size(0), 5 * D, [&](int64_t begin, int64_t end) {
        for (int64_t t = begin; t < end; ++t)
          for (int64_t i = 0; i < D; i += n)
            correct_head(row_of<T>(o, t) + i, row_of<T>(r, t) + i, row_of<T>(k, t) + i, r_k().ptr<T>() + i,
                         row_of<T>(v, t) + i, row_of<T>(g, t) + i, row_of<T>(out, t) + i, n);
      });
    });
  }
};

FK_IMPLEMENTATION(GateOutputCorrection, GateOutputCorrectionHeads, "cpu.heads", DeviceKind::kCpu, 0, nullptr);

}  // namespace
}  // namespace fk
