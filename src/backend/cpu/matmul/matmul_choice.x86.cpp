#include "backend/cpu/matmul/matmul_choice.h"
#include "core/cpu_features.h"
#include "ops/batch_invariant.h"

namespace fk {

MatmulFunction fastest_matmul(DType dtype) {
  const CpuFeatures& has = cpu_features();
  if (dtype == DType::kF16) return matmul_f16;
  if (dtype == DType::kBF16) {
    if (has.amx_bf16) return matmul_amx_bf16;
    if (has.avx512_bf16) return matmul_avx512_bf16;
    return has.avx2 ? matmul_avx2_bf16 : matmul_portable;
  }
  // It computes all rows in another way where one of them is not finite.
  if (has.amx_bf16 && !batch_invariant()) return matmul_amx_f32;
  if (has.avx512) return matmul_avx512_f32;
  return has.avx2 ? matmul_avx2_f32 : matmul_portable;
}

MatmulFunction fastest_dot(DType dtype) {
  const CpuFeatures& has = cpu_features();
  if (dtype == DType::kBF16 && has.avx512_bf16) return matmul_avx512_bf16;
  if (dtype == DType::kF32 && has.avx512) return matmul_avx512_f32;
  return fastest_matmul(dtype);
}

}  // namespace fk
