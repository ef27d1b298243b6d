#include "backend/cuda/experts/wgmma.h"

#include "backend/cuda/experts/wgmma_clusters.h"
#include "backend/cuda/experts/wgmma_kernel.cuh"

namespace fk::cuda {

using namespace expert_tiles;

std::string_view experts_wgmma_refusal(const ExpertsCall& call) {
  if (std::string_view why = wgmma_unavailable(); !why.empty()) return why;
  if (std::string_view why = experts_packs_refusal(call); !why.empty()) return why;
  if (call.features % 8 != 0 || call.out_stride % 8 != 0 || reinterpret_cast<uintptr_t>(call.out) % 16 != 0)
    return "rows of the result must start on 16 bytes";
  if (static_cast<int64_t>(call.experts) * call.weight_rows() > INT32_MAX || call.x_stride > INT32_MAX)
    return "it has 32-bit indices";
  if (call.tokens() <= kMostStreamedTokens) return "few rows are streamed faster";
  return {};
}

void experts_wgmma(const ExpertsCall& call, void* stream) {
  if (call.pairs == 0) return;
  if (clusters_are_faster(call)) return experts_wgmma_clusters(call, stream);
  with_experts_epilogue(call, [&]<ExpertsEpilogue kEpilogue>() {
    if (call.dtype == DType::kBF16)
      launch_tiles<__nv_bfloat16, kEpilogue, 1>(call, stream);
    else
      launch_tiles<__half, kEpilogue, 1>(call, stream);
  });
}

}  // namespace fk::cuda
