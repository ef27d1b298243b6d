// Sums and maxima over a warp and over a block; every thread gets the result.
#pragma once

#include <cuda_runtime.h>

namespace fk::cuda {

inline constexpr unsigned kAllLanes = 0xffffffffu;

struct Sum {
  static constexpr float kNeutral = 0;
  __device__ static float of(float a, float b) { return a + b; }
};
struct Max {
  static constexpr float kNeutral = -__builtin_inff();
  __device__ static float of(float a, float b) { return fmaxf(a, b); }
};

template <class Operation>
__device__ __forceinline__ float reduce_warp(float v) {
#pragma unroll
  for (int lanes = 16; lanes > 0; lanes /= 2) v = Operation::of(v, __shfl_xor_sync(kAllLanes, v, lanes));
  return v;
}

// All threads of the block take part; `scratch` holds 33 floats. The next use of the same scratch may follow at once.
template <class Operation>
__device__ __forceinline__ float reduce_block(float v, float* scratch) {
  v = reduce_warp<Operation>(v);
  const unsigned warp = threadIdx.x / 32, lane = threadIdx.x % 32, warps = (blockDim.x + 31) / 32;
  if (lane == 0) scratch[warp] = v;
  __syncthreads();
  if (warp == 0) {
    v = reduce_warp<Operation>(lane < warps ? scratch[lane] : Operation::kNeutral);
    if (lane == 0) scratch[32] = v;
  }
  __syncthreads();
  return scratch[32];
}

}  // namespace fk::cuda
