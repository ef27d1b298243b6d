// `linear` on any CPU; linear.x86.cpp and linear.arm64.cpp have the faster implementations.
#include "backend/cpu/l1/linear_matmul.h"
#include "ops/register.h"

namespace fk {
namespace {

using LinearPortableF32 = LinearMatmul<matmul_portable, DType::kF32>;
using LinearPortableBf16 = LinearMatmul<matmul_portable, DType::kBF16>;
using LinearF16 = LinearMatmul<matmul_f16, DType::kF16>;

FK_IMPLEMENTATION(Linear, LinearPortableF32, "cpu.portable_f32", DeviceKind::kCpu, 0, nullptr);
FK_IMPLEMENTATION(Linear, LinearPortableBf16, "cpu.portable_bf16", DeviceKind::kCpu, 0, nullptr);
FK_IMPLEMENTATION(Linear, LinearF16, "cpu.f16", DeviceKind::kCpu, 0, nullptr);

}  // namespace
}  // namespace fk
