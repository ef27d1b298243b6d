// The choice of the best experts of a token by one warp: scores are kept as unsigned keys, in registers or in shared
// memory.
#pragma once

#include <cstdint>

#include "backend/cuda/device/reduce.cuh"

namespace fk::cuda {

// Of no number: what was taken already.
inline constexpr uint32_t kTaken = 0;

// Keys are in the order of their numbers, and both zeros have the same. A NaN has a key, too.
__device__ __forceinline__ uint32_t order_key(float v) {
  const uint32_t bits = __float_as_uint(v + 0.0f);
  return (bits & 0x80000000u) != 0 ? max(~bits, 1u) : bits | 0x80000000u;
}
__device__ __forceinline__ float from_order_key(uint32_t key) {
  return __uint_as_float((key & 0x80000000u) != 0 ? key & 0x7fffffffu : ~key);
}

struct Best {
  int index;
  uint32_t key;
};

// Of the lanes' best keys the largest, of equal ones the first.
__device__ __forceinline__ Best best_of_lanes(uint32_t key, int index) {
  const uint32_t largest = __reduce_max_sync(kAllLanes, key);
  const unsigned first = __reduce_min_sync(kAllLanes, key == largest ? static_cast<unsigned>(index) : ~0u);
  return {static_cast<int>(first), largest};
}

// Keys of a warp in registers: lane i has keys i, i + 32, ..., kEach of them; kTaken where there are fewer.
template <int kEach>
struct HeldKeys {
  uint32_t at[kEach];

  // The largest, of equal ones the first; it is marked as taken. By all lanes.
  __device__ __forceinline__ Best take_best() {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    uint32_t key = at[0];
    int index = lane;
#pragma unroll
    for (int i = 1; i < kEach; ++i) {
      if (at[i] <= key) continue;
      key = at[i];
      index = lane + 32 * i;
    }
    const Best best = best_of_lanes(key, index);
#pragma unroll
    for (int i = 0; i < kEach; ++i)
      if (best.index == lane + 32 * i) at[i] = kTaken;
    return best;
  }
};

// The largest of n keys, of equal ones the first; it is marked as taken. By all lanes of a warp; lane i reads and
// writes keys i, i + 32, ..., which it has written itself or which were written before a __syncwarp().
__device__ __forceinline__ Best take_best(uint32_t* keys, int n) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  uint32_t key = kTaken;
  int index = lane;
  for (int i = lane; i < n; i += 32) {
    if (keys[i] <= key) continue;
    key = keys[i];
    index = i;
  }
  const Best best = best_of_lanes(key, index);
  if (best.index % 32 == lane) keys[best.index] = kTaken;
  return best;
}

}  // namespace fk::cuda
