// What the CUDA examples share: sums and maxima over a block, and 16 bytes of elements at a time.
#pragma once

#include <fastkernels/candidate.h>

template <class Join>
__device__ __forceinline__ float over_warp(float v, Join join) {
  for (int lanes = 16; lanes > 0; lanes /= 2) v = join(v, __shfl_xor_sync(0xffffffffu, v, lanes));
  return v;
}

// For every thread of the block, whose size is a multiple of 32. `neutral` changes nothing it is joined with.
template <class Join>
__device__ __forceinline__ float over_block(float v, float neutral, Join join) {
  __shared__ float parts[32];
  const unsigned warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  v = over_warp(v, join);
  if (lane == 0) parts[warp] = v;
  __syncthreads();
  v = over_warp(lane < blockDim.x / 32 ? parts[lane] : neutral, join);
  __syncthreads();  // the next reduction writes to `parts` again
  return v;
}

struct Add {
  __device__ float operator()(float a, float b) const { return a + b; }
};
struct Larger {
  __device__ float operator()(float a, float b) const { return fmaxf(a, b); }
};

// As much as a thread can load or store at once.
template <class T>
struct alignas(16) Pack {
  static constexpr int kElements = 16 / int(sizeof(T));
  T at[kElements];
};

inline bool on_16_bytes(const fk::View& v, int64_t element_bytes) {
  bool aligned = reinterpret_cast<uintptr_t>(v.data()) % 16 == 0;
  for (int d = 0; d + 1 < v.rank(); ++d) aligned = aligned && v.stride(d) * element_bytes % 16 == 0;
  return aligned && v.size(-1) * element_bytes % 16 == 0;
}
