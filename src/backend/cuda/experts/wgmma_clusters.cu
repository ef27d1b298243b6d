#include "backend/cuda/experts/wgmma_clusters.h"

#include "backend/cuda/experts/wgmma_kernel.cuh"

namespace fk::cuda {

using namespace expert_tiles;

bool clusters_are_faster(const ExpertsCall& call) {
  return call.dtype == DType::kBF16 && call.epilogue != ExpertsEpilogue::kSwigluOAI &&
         2 * int64_t{call.pairs} >= 3 * int64_t{call.experts} * kPairs;
}

void experts_wgmma_clusters(const ExpertsCall& call, void* stream) {
  if (call.epilogue == ExpertsEpilogue::kPlain)
    launch_tiles<__nv_bfloat16, ExpertsEpilogue::kPlain, 2>(call, stream);
  else if (call.epilogue == ExpertsEpilogue::kSiluAndMul)
    launch_tiles<__nv_bfloat16, ExpertsEpilogue::kSiluAndMul, 2>(call, stream);
  else
    launch_tiles<__nv_bfloat16, ExpertsEpilogue::kGelu, 2>(call, stream);
}

}  // namespace fk::cuda
