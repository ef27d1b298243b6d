// `fp8_linear` on any CPU.
#include "ops/l1/fp8_linear.h"

#include "backend/cpu/l1/fp8_linear_call.h"
#include "ops/register.h"

namespace fk {
namespace {

FK_IMPLEMENTATION(Fp8Linear, Fp8LinearDequantised, "cpu.dequantise", DeviceKind::kCpu, 0, nullptr);

}  // namespace

namespace {

template <class T>
FK_INLINE void unpack_body(const uint8_t* codes, const Fp8Scales& scales, int64_t columns, T* to) {
  for (int64_t begin = 0; begin < columns; begin += scales.run) {
    float scale = scales.of_row[begin / scales.run];
    int64_t end = begin + scales.run < columns ? begin + scales.run : columns;
    for (int64_t i = begin; i < end; ++i) store(to[i], fp8_value(codes[i]) * scale);
  }
}

FK_SIMD_CLONES void unpack_row(const uint8_t* codes, const Fp8Scales& scales, int64_t columns, bf16* to) {
  unpack_body(codes, scales, columns, to);
}
FK_SIMD_CLONES void unpack_row(const uint8_t* codes, const Fp8Scales& scales, int64_t columns, f16* to) {
  unpack_body(codes, scales, columns, to);
}
FK_SIMD_CLONES void unpack_row(const uint8_t* codes, const Fp8Scales& scales, int64_t columns, float* to) {
  unpack_body(codes, scales, columns, to);
}

}  // namespace

void Fp8LinearDequantised::unpack(const Part& part, int64_t row, const View& to) const {
  std::span<const View> weight = tensors(part);
  const auto* codes = static_cast<const uint8_t*>(weight[0].data()) + row * weight[0].stride(0);
  Fp8Scales scales(weight[1], part.rows, init_.in_features, row);
  with_float(to.dtype(), [&]<class T>(T) { unpack_row(codes, scales, init_.in_features, to.ptr<T>()); });
}

}  // namespace fk
