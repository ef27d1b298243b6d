// `moe_grouped_gemm` on any CPU; moe_grouped_gemm.x86.cpp and moe_grouped_gemm.arm64.cpp have the faster
// implementations.
#include "backend/cpu/l1/moe_grouped_matmul.h"
#include "ops/register.h"

namespace fk {
namespace {

using GroupedPortableF32 = GroupedMatmul<matmul_portable, DType::kF32>;
using GroupedPortableBf16 = GroupedMatmul<matmul_portable, DType::kBF16>;
using GroupedF16 = GroupedMatmul<matmul_f16, DType::kF16>;

FK_IMPLEMENTATION(MoeGroupedGemm, GroupedPortableF32, "cpu.portable_f32", DeviceKind::kCpu, 0, nullptr);
FK_IMPLEMENTATION(MoeGroupedGemm, GroupedPortableBf16, "cpu.portable_bf16", DeviceKind::kCpu, 0, nullptr);
FK_IMPLEMENTATION(MoeGroupedGemm, GroupedF16, "cpu.f16", DeviceKind::kCpu, 0, nullptr);

}  // namespace
}  // namespace fk
