// PerTokenGroupQuantFp8 on CPU.
#include "ops/l1/per_token_group_quant_fp8.h"

#include "backend/cpu/quantised/fp8_rows_out.h"
#include "ops/register.h"

namespace fk {
namespace {

template <class T>
FK_INLINE void widen_body(const T* x, int64_t n, float* values) {
  for (int64_t i = 0; i < n; ++i) values[i] = load(x[i]);
}
FK_SIMD_CLONES void widen(const bf16* x, int64_t n, float* values) { widen_body(x, n, values); }
FK_SIMD_CLONES void widen(const f16* x, int64_t n, float* values) { widen_body(x, n, values); }
FK_SIMD_CLONES void widen(const float* x, int64_t n, float* values) { widen_body(x, n, values); }

class PerTokenGroupQuantFp8Rows final : public PerTokenGroupQuantFp8 {
 public:
  using PerTokenGroupQuantFp8::PerTokenGroupQuantFp8;

  std::string_view refuse(Args args) const override { return refuse_fp8_rows(*args[0], *args[1], *args[2]); }

  void forward(Context& ctx, View x, View x_q, View x_s) override {
    for_fp8_rows(ctx, x_q, x_s, [&](int64_t t, float* values) {
      with_float(x.dtype(), [&]<class T>(T) { widen(row_of<T>(x, t), x.size(1), values); });
    });
  }
};

FK_IMPLEMENTATION(PerTokenGroupQuantFp8, PerTokenGroupQuantFp8Rows, "cpu.row_per_thread", DeviceKind::kCpu, 0, nullptr);

}  // namespace
}  // namespace fk
