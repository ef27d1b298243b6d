#include "backend/cuda/experts/call.h"

namespace fk::cuda {

std::string_view experts_packs_refusal(const ExpertsCall& call) {
  if (call.dtype != DType::kBF16 && call.dtype != DType::kF16) return "it multiplies bf16 and f16";
  if (call.length % 8 != 0 || call.x_stride % 8 != 0 || reinterpret_cast<uintptr_t>(call.x) % 16 != 0 ||
      reinterpret_cast<uintptr_t>(call.weight) % 16 != 0)
    return "rows must start on 16 bytes";
  return {};
}

}  // namespace fk::cuda
