// The kernel of experts_wgmma.
//
// A block works through tiles of 256 rows of an expert's matrix by up to 192 pairs. One warpgroup loads both, 64
// columns at a time, into a ring in shared memory: the rows of x are gathered on the way, unless they lie in order. Two
// warpgroups multiply, 128 rows of W each. W is the left factor, whose tiles are always full, so that the width of the
// products fits the number of pairs.
#pragma once

#include <algorithm>

#include "backend/cuda/device/launch.cuh"
#include "backend/cuda/device/multiprocessors.h"
#include "backend/cuda/device/registers.cuh"
#include "backend/cuda/device/tensor_map.h"
#include "backend/cuda/experts/wgmma_loader.cuh"
#include "backend/cuda/experts/wgmma_multiplier.cuh"

namespace fk::cuda::expert_tiles {

template <class T, ExpertsEpilogue kEpilogue, int kBlocks>
__global__ void __launch_bounds__(kThreads, 1)
    multiply_experts(const __grid_constant__ ExpertsCall call, const __grid_constant__ CUtensorMap weight,
                     const __grid_constant__ CUtensorMap x) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  extern __shared__ unsigned char shared[];
  const auto start = static_cast<uint32_t>(__cvta_generic_to_shared(shared));
  const Ring<kBlocks> ring{(start + kPatternBytes - 1) / kPatternBytes * kPatternBytes};
  if (threadIdx.x == 0) ring.make_barriers();
  if constexpr (kBlocks <= 1) {
    __syncthreads();
  } else {
    __syncwarp();
    arrive_at_cluster();
    wait_for_cluster();
  }
  let_next_start();
  wait_for_previous();
  const int warpgroup = __shfl_sync(kAllLanes, static_cast<int>(threadIdx.x) / kWarpgroup, 0);
  if (warpgroup == kMultipliers) {
    give_back_registers<kLoaderRegisters>();
    if constexpr (kBlocks == kRowsInOrder)
      load_tiles_in_order<kEpilogue>(call, weight, x, ring);
    else
      load_tiles<T, kEpilogue>(call, weight, ring);
  } else {
    take_registers<kMultiplierRegisters>();
    ExpertsMultiplier<T, kEpilogue, kBlocks>{call, ring, warpgroup}.run();
  }
  if constexpr (kBlocks > 1) {
    // The others may still arrive at this block's barriers.
    __syncwarp();
    arrive_at_cluster();
    wait_for_cluster();
  }
#endif
}

template <class T, ExpertsEpilogue kEpilogue, int kBlocks>
void launch_tiles(const ExpertsCall& call, void* stream) {
  constexpr auto* kKernel = multiply_experts<T, kEpilogue, kBlocks>;
  static const bool allowed = (allow_shared_memory("multiply_experts", kKernel, kSharedBytes), true);
  static_cast<void>(allowed);
  const int64_t columns = blocks_for(call.features, tile_features<kEpilogue>());
  constexpr int kOfCluster = kBlocks > 1 ? kBlocks : 1;
  const int64_t tiles = most_row_tiles(call, kOfCluster * kPairs) * columns;
  const int64_t rows = static_cast<int64_t>(call.experts) * call.weight_rows();
  const auto clusters = static_cast<unsigned>(std::min<int64_t>(tiles, multiprocessors() / kOfCluster));
  const CUtensorMap weights = map_of_panels(call.weight, rows, call.length, kPart);
  launch("multiply_experts", kKernel,
         LaunchShape{
             .grid = clusters * kOfCluster, .block = kThreads, .shared_bytes = kSharedBytes, .cluster = kOfCluster},
         stream, call, weights,
         kBlocks == kRowsInOrder ? map_of_panels(call.x, call.pairs, call.length, kPart) : weights);
}

}  // namespace fk::cuda::expert_tiles
