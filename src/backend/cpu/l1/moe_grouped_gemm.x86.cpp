// `moe_grouped_gemm` with the vector and tile instructions of x86-64, the best of them first.
#include "backend/cpu/l1/moe_grouped_matmul.h"
#include "core/cpu_features.h"
#include "ops/register.h"

namespace fk {
namespace {

std::string_view grouped_without_avx2() { return cpu_features().avx2 ? "" : "this CPU has no AVX2 with FMA"; }
std::string_view grouped_without_avx512() {
  return cpu_features().avx512 ? "" : "this CPU has no AVX-512 (F, BW, DQ, VL)";
}
std::string_view grouped_without_avx512_bf16() {
  return cpu_features().avx512_bf16 ? "" : "this CPU has no AVX-512 BF16";
}
// Every CPU with AMX has AVX-512 BF16, which multiplies experts with few rows.
std::string_view grouped_without_amx() {
  return cpu_features().amx_bf16 && cpu_features().avx512_bf16
             ? ""
             : "this CPU has no AMX for bf16, or the system does not grant it";
}

// From as many rows on as in linear.x86.cpp.
using GroupedAmxBf16 = GroupedMatmul<matmul_amx_bf16, DType::kBF16, 3, matmul_avx512_bf16>;
using GroupedAmxF32 = GroupedMatmul<matmul_amx_f32, DType::kF32, 32, matmul_avx512_f32>;
using GroupedAvx512Bf16 = GroupedMatmul<matmul_avx512_bf16, DType::kBF16>;
using GroupedAvx512F32 = GroupedMatmul<matmul_avx512_f32, DType::kF32>;
using GroupedAvx2Bf16 = GroupedMatmul<matmul_avx2_bf16, DType::kBF16>;
using GroupedAvx2F32 = GroupedMatmul<matmul_avx2_f32, DType::kF32>;

FK_IMPLEMENTATION(MoeGroupedGemm, GroupedAmxBf16, "cpu.amx_bf16", DeviceKind::kCpu, 40, grouped_without_amx);
FK_IMPLEMENTATION(MoeGroupedGemm, GroupedAmxF32, "cpu.amx_f32", DeviceKind::kCpu, 40, grouped_without_amx);
FK_IMPLEMENTATION(MoeGroupedGemm, GroupedAvx512Bf16, "cpu.avx512_bf16", DeviceKind::kCpu, 30,
                  grouped_without_avx512_bf16);
FK_IMPLEMENTATION(MoeGroupedGemm, GroupedAvx512F32, "cpu.avx512_f32", DeviceKind::kCpu, 20, grouped_without_avx512);
FK_IMPLEMENTATION(MoeGroupedGemm, GroupedAvx2Bf16, "cpu.avx2_bf16", DeviceKind::kCpu, 10, grouped_without_avx2);
FK_IMPLEMENTATION(MoeGroupedGemm, GroupedAvx2F32, "cpu.avx2_f32", DeviceKind::kCpu, 10, grouped_without_avx2);

}  // namespace
}  // namespace fk
