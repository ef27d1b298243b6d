// `linear` with the vector instructions of aarch64, the best of them first.
#include "backend/cpu/l1/linear_matmul.h"
#include "core/cpu_features.h"
#include "ops/register.h"

namespace fk {
namespace {

std::string_view without_neon() { return cpu_features().neon ? "" : "this CPU has no NEON"; }
std::string_view without_neon_bf16() { return cpu_features().neon_bf16 ? "" : "this CPU has no BFDOT and BFMMLA"; }

using LinearNeonBf16 = LinearMatmul<matmul_neon_bf16, DType::kBF16>;
using LinearNeonWidenBf16 = LinearMatmul<matmul_neon_widen_bf16, DType::kBF16>;
using LinearNeonF32 = LinearMatmul<matmul_neon_f32, DType::kF32>;

FK_IMPLEMENTATION(Linear, LinearNeonBf16, "cpu.neon_bf16", DeviceKind::kCpu, 20, without_neon_bf16);
FK_IMPLEMENTATION(Linear, LinearNeonWidenBf16, "cpu.neon_widen_bf16", DeviceKind::kCpu, 10, without_neon);
FK_IMPLEMENTATION(Linear, LinearNeonF32, "cpu.neon_f32", DeviceKind::kCpu, 10, without_neon);

}  // namespace
}  // namespace fk
