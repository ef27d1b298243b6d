#include "backend/cpu/matmul/matmul_choice.h"
#include "core/cpu_features.h"

namespace fk {

MatmulFunction fastest_matmul(DType dtype) {
  const CpuFeatures& has = cpu_features();
  if (dtype == DType::kF16) return matmul_f16;
  if (!has.neon) return matmul_portable;
  if (dtype == DType::kBF16) return has.neon_bf16 ? matmul_neon_bf16 : matmul_neon_widen_bf16;
  return matmul_neon_f32;
}

MatmulFunction fastest_dot(DType dtype) { return fastest_matmul(dtype); }

}  // namespace fk
