// ActQuantInt8 on CPU.
#include "ops/l1/act_quant_int8.h"

#include <bit>

#include "backend/cpu/row_kernel.h"
#include "backend/cpu/simd.h"
#include "ops/register.h"

namespace fk {
namespace {

template <class T>
FK_INLINE void act_quant_body(const T* x, T* out, int64_t n, float least) {
  // Positive floats have the order of their bits, and a NaN is the largest of them.
  auto largest = std::bit_cast<uint32_t>(least);
#pragma omp simd reduction(max : largest)
  for (int64_t i = 0; i < n; ++i) {
    uint32_t magnitude = std::bit_cast<uint32_t>(load(x[i])) & 0x7fffffffu;
    largest = magnitude > largest ? magnitude : largest;
  }
  const float steps = 127.0f / std::bit_cast<float>(largest), step = std::bit_cast<float>(largest) / 127.0f;
  constexpr float kRound = 0x1.8p23f;  // adding it leaves no bits behind the point
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) store(out[i], (load(x[i]) * steps + kRound - kRound) * step);
}
FK_SIMD_CLONES void act_quant(const bf16* x, bf16* out, int64_t n, float least) { act_quant_body(x, out, n, least); }
FK_SIMD_CLONES void act_quant(const f16* x, f16* out, int64_t n, float least) { act_quant_body(x, out, n, least); }
FK_SIMD_CLONES void act_quant(const float* x, float* out, int64_t n, float least) { act_quant_body(x, out, n, least); }

class ActQuantInt8Rows final : public ActQuantInt8 {
 public:
  using ActQuantInt8::ActQuantInt8;

  std::string_view refuse(Args args) const override { return refuse_floats({&args[0], &args[1]}); }

  void forward(Context& ctx, View x, View out) override {
    with_float(x.dtype(), [&]<class T>(T) {
      for_rows(ctx.pool, x.size(0), x.size(1), [&](int64_t begin, int64_t end) {
        for (int64_t t = begin; t < end; ++t)
          act_quant(row_of<T>(x, t), row_of<T>(out, t), x.size(1), static_cast<float>(init_.least_magnitude));
      });
    });
  }
};

FK_IMPLEMENTATION(ActQuantInt8, ActQuantInt8Rows, "cpu.rows", DeviceKind::kCpu, 0, nullptr);

}  // namespace
}  // namespace fk
