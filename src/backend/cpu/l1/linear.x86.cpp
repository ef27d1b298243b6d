// `linear` with the vector and tile instructions of x86-64, the best of them first.
#include "backend/cpu/l1/linear_matmul.h"
#include "core/cpu_features.h"
#include "ops/register.h"

namespace fk {
namespace {

std::string_view without_avx2() { return cpu_features().avx2 ? "" : "this CPU has no AVX2 with FMA"; }
std::string_view without_avx512() { return cpu_features().avx512 ? "" : "this CPU has no AVX-512 (F, BW, DQ, VL)"; }
std::string_view without_avx512_bf16() { return cpu_features().avx512_bf16 ? "" : "this CPU has no AVX-512 BF16"; }
std::string_view without_amx() {
  return cpu_features().amx_bf16 ? "" : "this CPU has no AMX for bf16, or the system does not grant it";
}

using LinearAmxBf16 = LinearMatmul<matmul_amx_bf16, DType::kBF16, 3>;
using LinearAmxF32 = LinearMatmul<matmul_amx_f32, DType::kF32, 32>;
using LinearAvx512Bf16 = LinearMatmul<matmul_avx512_bf16, DType::kBF16>;
using LinearAvx512F32 = LinearMatmul<matmul_avx512_f32, DType::kF32>;
using LinearAvx2Bf16 = LinearMatmul<matmul_avx2_bf16, DType::kBF16>;
using LinearAvx2F32 = LinearMatmul<matmul_avx2_f32, DType::kF32>;

FK_IMPLEMENTATION(Linear, LinearAmxBf16, "cpu.amx_bf16", DeviceKind::kCpu, 40, without_amx);
FK_IMPLEMENTATION(Linear, LinearAmxF32, "cpu.amx_f32", DeviceKind::kCpu, 40, without_amx);
FK_IMPLEMENTATION(Linear, LinearAvx512Bf16, "cpu.avx512_bf16", DeviceKind::kCpu, 30, without_avx512_bf16);
FK_IMPLEMENTATION(Linear, LinearAvx512F32, "cpu.avx512_f32", DeviceKind::kCpu, 20, without_avx512);
FK_IMPLEMENTATION(Linear, LinearAvx2Bf16, "cpu.avx2_bf16", DeviceKind::kCpu, 10, without_avx2);
FK_IMPLEMENTATION(Linear, LinearAvx2F32, "cpu.avx2_f32", DeviceKind::kCpu, 10, without_avx2);

}  // namespace
}  // namespace fk
