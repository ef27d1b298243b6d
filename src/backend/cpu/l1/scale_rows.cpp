// ScaleRows on CPU.
#include "ops/l1/scale_rows.h"

#include "backend/cpu/row_kernel.h"
#include "backend/cpu/simd.h"
#include "ops/register.h"

namespace fk {
namespace {

template <class T>
FK_INLINE void multiply_by_body(const T* x, float factor, T* out, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) store(out[i], load(x[i]) * factor);
}
FK_SIMD_CLONES void multiply_by(const bf16* x, float factor, bf16* out, int64_t n) {
  multiply_by_body(x, factor, out, n);
}
FK_SIMD_CLONES void multiply_by(const f16* x, float factor, f16* out, int64_t n) {
  multiply_by_body(x, factor, out, n);
}
FK_SIMD_CLONES void multiply_by(const float* x, float factor, float* out, int64_t n) {
  multiply_by_body(x, factor, out, n);
}

class ScaleRowsInPieces final : public ScaleRows {
 public:
  using ScaleRows::ScaleRows;

  std::string_view refuse(Args args) const override {
    if (args[1]->dtype() != DType::kF32) return "scale must be f32";
    return refuse_floats({&args[0], &args[2]});
  }

  void forward(Context& ctx, View x, View scale, View out) override {
    with_float(x.dtype(), [&]<class T>(T) {
      for_row_pieces(ctx.pool, out.size(0), out.size(1), [&](int64_t r, int64_t, int64_t begin, int64_t end) {
        multiply_by(row_of<T>(x, r) + begin, *row_of<float>(scale, r), row_of<T>(out, r) + begin, end - begin);
      });
    });
  }
};

FK_IMPLEMENTATION(ScaleRows, ScaleRowsInPieces, "cpu.rows", DeviceKind::kCpu, 0, nullptr);

}  // namespace
}  // namespace fk
