// Small products beside the streamed ones: a row belongs to eight neighbouring lanes, and its weights are loaded into
// registers long before they are used.
#pragma once

#include <cstdint>
#include <cstring>

#include "backend/cuda/device/element.cuh"
#include "backend/cuda/device/reduce.cuh"

namespace fk::cuda {

// Loaded before it is used, at the place of the call.
__device__ __forceinline__ uint4 load_early(const void* address) {
  uint4 v;
  asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "l"(address));
  return v;
}

// Sum of the products of eight elements with eight floats in shared memory.
template <class T>
__device__ __forceinline__ float multiply_eight(const uint4& raw, const float* x, float sum) {
  Pack<T, 8> w;
  memcpy(&w, &raw, sizeof w);
  const auto* from = reinterpret_cast<const float4*>(x);
  const float4 low = from[0], high = from[1];
  const float of_x[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
#pragma unroll
  for (int i = 0; i < 8; ++i) sum = fmaf(to_float(w.at[i]), of_x[i], sum);
  return sum;
}

// The sum over the eight threads of a group, in each of them.
__device__ __forceinline__ float sum_of_eight(float v) {
#pragma unroll
  for (int lanes = 1; lanes < 8; lanes *= 2) v += __shfl_xor_sync(kAllLanes, v, lanes);
  return v;
}

}  // namespace fk::cuda
