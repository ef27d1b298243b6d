// `moe_grouped_gemm` with the vector instructions of aarch64, the best of them first.
#include "backend/cpu/l1/moe_grouped_matmul.h"
#include "core/cpu_features.h"
#include "ops/register.h"

namespace fk {
namespace {

std::string_view grouped_without_neon() { return cpu_features().neon ? "" : "this CPU has no NEON"; }
std::string_view grouped_without_neon_bf16() {
  return cpu_features().neon_bf16 ? "" : "this CPU has no BFDOT and BFMMLA";
}

using GroupedNeonBf16 = GroupedMatmul<matmul_neon_bf16, DType::kBF16>;
using GroupedNeonWidenBf16 = GroupedMatmul<matmul_neon_widen_bf16, DType::kBF16>;
using GroupedNeonF32 = GroupedMatmul<matmul_neon_f32, DType::kF32>;

FK_IMPLEMENTATION(MoeGroupedGemm, GroupedNeonBf16, "cpu.neon_bf16", DeviceKind::kCpu, 20, grouped_without_neon_bf16);
FK_IMPLEMENTATION(MoeGroupedGemm, GroupedNeonWidenBf16, "cpu.neon_widen_bf16", DeviceKind::kCpu, 10,
                  grouped_without_neon);
FK_IMPLEMENTATION(MoeGroupedGemm, GroupedNeonF32, "cpu.neon_f32", DeviceKind::kCpu, 10, grouped_without_neon);

}  // namespace
}  // namespace fk
