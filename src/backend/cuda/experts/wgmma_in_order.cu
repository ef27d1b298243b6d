// The products of wgmma.h where rows of x lie in the order of the sorted pairs.
#include "backend/cuda/experts/wgmma_in_order.h"

#include "backend/cuda/experts/wgmma_kernel.cuh"

namespace fk::cuda {

using namespace expert_tiles;

void experts_wgmma_in_order(const ExpertsCall& call, void* stream) {
  if (call.pairs == 0) return;
  with_experts_epilogue(call, [&]<ExpertsEpilogue kEpilogue>() {
    if (call.dtype == DType::kBF16)
      launch_tiles<__nv_bfloat16, kEpilogue, kRowsInOrder>(call, stream);
    else
      launch_tiles<__half, kEpilogue, kRowsInOrder>(call, stream);
  });
}

namespace {

constexpr int kGatherThreads = 128;

__global__ void __launch_bounds__(kGatherThreads)
    gather_pairs(const uint4* x, int64_t x_stride, const int32_t* sorted, int pairs_per_row, uint4* out, int packs) {
  let_next_start();
  wait_for_previous();
  const int64_t row = sorted[blockIdx.x] / pairs_per_row;
  for (int i = static_cast<int>(threadIdx.x); i < packs; i += kGatherThreads)
    out[blockIdx.x * static_cast<int64_t>(packs) + i] = x[row * x_stride + i];
}

}  // namespace

void gather_sorted_rows(const ExpertsCall& call, void* out, void* stream) {
  constexpr int kPack = 8;
  launch("gather_pairs", gather_pairs, static_cast<unsigned>(call.pairs), kGatherThreads, 0, stream,
         static_cast<const uint4*>(call.x), call.x_stride / kPack, call.sorted, call.pairs_per_row,
         static_cast<uint4*>(out), call.length / kPack);
}

}  // namespace fk::cuda
