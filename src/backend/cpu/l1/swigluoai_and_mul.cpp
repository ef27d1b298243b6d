// SwigluOAIAndMul on CPU.
#include "ops/l1/swigluoai_and_mul.h"

#include "backend/cpu/row_kernel.h"
#include "backend/cpu/vector_math.h"
#include "ops/register.h"

namespace fk {
namespace {

// x: n pairs of gate and up.
template <class T>
FK_INLINE void swigluoai_body(const T* x, T* out, int64_t n, float alpha, float limit) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    float gate = load(x[2 * i]), up = load(x[2 * i + 1]);
    gate = gate > limit ? limit : gate;
    up = up > limit ? limit : up;
    up = up < -limit ? -limit : up;
    store(out[i], gate / (1.0f + vexp_bounded(-alpha * gate)) * (up + 1.0f));
  }
}

FK_SIMD_CLONES void swigluoai(const bf16* x, bf16* out, int64_t n, float alpha, float limit) {
  swigluoai_body(x, out, n, alpha, limit);
}
FK_SIMD_CLONES void swigluoai(const f16* x, f16* out, int64_t n, float alpha, float limit) {
  swigluoai_body(x, out, n, alpha, limit);
}
FK_SIMD_CLONES void swigluoai(const float* x, float* out, int64_t n, float alpha, float limit) {
  swigluoai_body(x, out, n, alpha, limit);
}

class SwigluOAIAndMulFused final : public SwigluOAIAndMul {
 public:
  using SwigluOAIAndMul::SwigluOAIAndMul;

  std::string_view refuse(Args args) const override { return refuse_floats({&args[0], &args[1]}); }

  void forward(Context& ctx, View x, View out) override {
    with_float(x.dtype(), [&]<class T>(T) {
      for_row_pieces(ctx.pool, out.size(0), out.size(1), [&](int64_t r, int64_t, int64_t begin, int64_t end) {
        swigluoai(row_of<T>(x, r) + 2 * begin, row_of<T>(out, r) + begin, end - begin, static_cast<float>(init_.alpha),
                  static_cast<float>(init_.limit));
      });
    });
  }
};

FK_IMPLEMENTATION(SwigluOAIAndMul, SwigluOAIAndMulFused, "cpu.fused", DeviceKind::kCpu, 0, nullptr);

}  // namespace
}  // namespace fk
