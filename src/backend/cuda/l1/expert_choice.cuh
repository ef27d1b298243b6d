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

// What best_of_held keeps in shared memory.
struct CandidateKeys {
  alignas(16) uint32_t key[32];
  int32_t index[32];

  // How many of the keys are larger than that of this lane, or equal and of a lower lane.
  __device__ __forceinline__ int rank(uint32_t own) const {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    int before = 0;
#pragma unroll
    for (int i = 0; i < 32; i += 4) {
      const uint4 four = *reinterpret_cast<const uint4*>(key + i);
      before += four.x > own || (four.x == own && i < lane);
      before += four.y > own || (four.y == own && i + 1 < lane);
      before += four.z > own || (four.z == own && i + 2 < lane);
      before += four.w > own || (four.w == own && i + 3 < lane);
    }
    return before;
  }
};

// The `count` largest keys of a warp, at most 32, of equal ones the first ones: lane j gets the j-th largest. There
// must be as many that are not kTaken; some may be marked as taken. By all lanes.
//
// The count-th largest of the lanes' own largest keys is a bound: `count` keys are not below it, and rarely many more.
// These are ranked all at once, instead of one after the other.
template <int kEach>
__device__ __forceinline__ Best best_of_held(HeldKeys<kEach>& keys, int count, CandidateKeys& candidates) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  uint32_t largest = keys.at[0];
#pragma unroll
  for (int i = 1; i < kEach; ++i) largest = max(largest, keys.at[i]);
  candidates.key[lane] = largest;
  __syncwarp();
  const unsigned bounding = __ballot_sync(kAllLanes, candidates.rank(largest) == count - 1);
  const uint32_t bound = max(__shfl_sync(kAllLanes, largest, __ffs(static_cast<int>(bounding)) - 1), kTaken + 1);
  __syncwarp();
  candidates.key[lane] = kTaken;
  __syncwarp();
  int found = 0;
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    const bool is_one = keys.at[i] >= bound;
    const unsigned ones = __ballot_sync(kAllLanes, is_one);
    const int place = found + __popc(ones & ((1u << lane) - 1));
    if (is_one && place < 32) {
      candidates.key[place] = keys.at[i];
      candidates.index[place] = lane + 32 * i;
    }
    found += __popc(ones);
  }
  Best own{0, kTaken};
  if (found > 32) {
    for (int j = 0; j < count; ++j) {
      const Best best = keys.take_best();
      if (lane == j) own = best;
    }
    return own;
  }
  __syncwarp();
  // Candidates are in the order of their indices.
  const uint32_t key = candidates.key[lane];
  const int index = candidates.index[lane], place = candidates.rank(key);
  __syncwarp();
  candidates.key[place] = key;
  candidates.index[place] = index;
  __syncwarp();
  if (lane < count) own = {candidates.index[lane], candidates.key[lane]};
  return own;
}

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
