// A block works through tiles of 256 rows of an expert's matrix by up to 192 pairs. One warpgroup loads both, 64
// columns at a time, into a ring in shared memory: the rows of x are gathered on the way. Two warpgroups multiply, 128
// rows of W each. W is the left factor, whose tiles are always full, so that the width of the products fits the number
// of pairs.
#include "backend/cuda/experts/wgmma.h"

#include <algorithm>

#include "backend/cuda/device/launch.cuh"
#include "backend/cuda/device/registers.cuh"
#include "backend/cuda/device/tensor_map.h"
#include "backend/cuda/experts/wgmma_loader.cuh"
#include "backend/cuda/experts/wgmma_multiplier.cuh"

namespace fk::cuda {
namespace {

using namespace expert_tiles;

template <class T, ExpertsEpilogue kEpilogue>
__global__ void __launch_bounds__(kThreads, 1)
    multiply_experts(const __grid_constant__ ExpertsCall call, const __grid_constant__ CUtensorMap weight) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  extern __shared__ unsigned char shared[];
  const auto start = static_cast<uint32_t>(__cvta_generic_to_shared(shared));
  const Ring ring{(start + kPatternBytes - 1) / kPatternBytes * kPatternBytes};
  if (threadIdx.x == 0) ring.make_barriers();
  __syncthreads();
  let_next_start();
  wait_for_previous();
  const int warpgroup = __shfl_sync(kAllLanes, static_cast<int>(threadIdx.x) / kWarpgroup, 0);
  if (warpgroup == kMultipliers) {
    give_back_registers<kLoaderRegisters>();
    load_tiles<T, kEpilogue>(call, weight, ring);
  } else {
    take_registers<kMultiplierRegisters>();
    ExpertsMultiplier<T, kEpilogue>{call, ring, warpgroup}.run();
  }
#endif
}

int multiprocessors() {
  static const int count = [] {
    int device = 0, answer = 0;
    check(cudaGetDevice(&device), "Asking for the current device");
    check(cudaDeviceGetAttribute(&answer, cudaDevAttrMultiProcessorCount, device), "Counting multiprocessors");
    return answer;
  }();
  return count;
}

template <class T, ExpertsEpilogue kEpilogue>
void launch_tiles(const ExpertsCall& call, void* stream) {
  constexpr auto* kKernel = multiply_experts<T, kEpilogue>;
  static const bool allowed = (allow_shared_memory("multiply_experts", kKernel, kSharedBytes), true);
  static_cast<void>(allowed);
  const int64_t most = most_row_tiles(call, kPairs) * blocks_for(call.features, tile_features<kEpilogue>());
  const int64_t rows = static_cast<int64_t>(call.experts) * call.weight_rows();
  launch("multiply_experts", kKernel, static_cast<unsigned>(std::min<int64_t>(most, multiprocessors())), kThreads,
         kSharedBytes, stream, call, map_of_panels(call.weight, rows, call.length, kPart));
}

}  // namespace

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
  with_experts_epilogue(call, [&]<ExpertsEpilogue kEpilogue>() {
    if (call.dtype == DType::kBF16)
      launch_tiles<__nv_bfloat16, kEpilogue>(call, stream);
    else
      launch_tiles<__half, kEpilogue>(call, stream);
  });
}

}  // namespace fk::cuda
