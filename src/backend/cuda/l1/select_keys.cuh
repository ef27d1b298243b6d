// Radix selection of the largest keys of a row: floats as integers of the same order, counts before a thread.
#pragma once

#include <cstdint>

#include "backend/cuda/device/reduce.cuh"
#include "core/tensor.h"

namespace fk::cuda {

inline constexpr int kSelectThreads = 1024, kSelectWarps = kSelectThreads / 32;

// An integer with the order of the float. Zeros of either sign are equal, and NaN is above everything.
__device__ __forceinline__ uint32_t select_key(float x) {
  const uint32_t bits = __float_as_uint(x + 0.0f);
  if (x != x) return 0xffffffffu;
  return (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
}

struct SelectCall {
  const float* logits;
  const int64_t* positions;
  int32_t* indices;
  int64_t logit_stride, position_stride, index_stride;
  int row, k;

  // How many keys the query of a row sees.
  __device__ __forceinline__ int keys(int64_t t) const {
    const int64_t position = positions[t * position_stride];
    return static_cast<int>(position + 1 < row ? (position + 1 > 0 ? position + 1 : 0) : row);
  }
};

inline SelectCall select_call(const View& logits, const View& positions, const View& indices, int64_t k) {
  return {.logits = logits.ptr<float>(),
          .positions = positions.ptr<int64_t>(),
          .indices = indices.ptr<int32_t>(),
          .logit_stride = logits.stride(0),
          .position_stride = positions.stride(0),
          .index_stride = indices.stride(0),
          .row = static_cast<int>(logits.size(1) * logits.size(2)),
          .k = static_cast<int>(k)};
}

// The sum of x over the lanes up to this one.
__device__ __forceinline__ unsigned scan_warp(unsigned x) {
#pragma unroll
  for (int distance = 1; distance < 32; distance *= 2) {
    const unsigned before = __shfl_up_sync(kAllLanes, x, distance);
    if (static_cast<int>(threadIdx.x % 32) >= distance) x += before;
  }
  return x;
}

// The sum of x over the threads before this one. `totals` may be used again after another barrier.
__device__ __forceinline__ unsigned sum_before(unsigned x, unsigned (&totals)[kSelectWarps]) {
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const unsigned through = scan_warp(x);
  if (lane == 31) totals[warp] = through;
  __syncthreads();
  const unsigned of_warps = scan_warp(totals[lane]);
  const unsigned before_warp = __shfl_sync(kAllLanes, of_warps, warp > 0 ? warp - 1 : 0);
  return (warp > 0 ? before_warp : 0) + through - x;
}
static_assert(kSelectWarps == 32);  // a lane for each warp

}  // namespace fk::cuda
