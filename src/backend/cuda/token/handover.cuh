// How a warp hands over a slot of the ring. As it is meant: at once, and one lane arrives for all. To look for races,
// two other ways, chosen by FASTKERNELS_DEBUG_HANDOVER; whatever the way, results are the same bit by bit.
#pragma once

#include <cuda_runtime.h>

#include "backend/cuda/device/mbarrier.cuh"

namespace fk::cuda {

struct AtOnce {
  static constexpr unsigned kArrivals = 1;  // of a warp, for one slot
  __device__ __forceinline__ explicit AtOnce(unsigned) {}
  __device__ __forceinline__ void dawdle() {}
};

// Every lane arrives for itself. compute-sanitizer's racecheck (2025.3) does not see that a lane that arrives after
// __syncwarp speaks for its warp, and reports a race between all other lanes and those who waited.
struct EveryLane : AtOnce {
  static constexpr unsigned kArrivals = 32;
  using AtOnce::AtOnce;
};

// After a while that differs from warp to warp and from slot to slot: what is used too early shows.
class Dawdling {
 public:
  static constexpr unsigned kArrivals = 1;
  __device__ __forceinline__ explicit Dawdling(unsigned seed)
      : state_((seed * 0x9E3779B9u) ^ (blockIdx.x * 0x85EBCA6Bu) ^ (threadIdx.x / 32 * 0xC2B2AE35u) ^ 1u) {}

  // One time in eight, up to two microseconds; all lanes alike.
  __device__ __forceinline__ void dawdle() {
    state_ ^= state_ << 13;
    state_ ^= state_ >> 17;
    state_ ^= state_ << 5;
    if (state_ % 8 == 0) __nanosleep(state_ / 8 % 2048);
  }

 private:
  unsigned state_;
};

// The calling warp is done with what `barrier` stands for.
template <class Handover>
__device__ __forceinline__ void hand_over(uint32_t barrier) {
  __syncwarp();
  if (Handover::kArrivals == 32 || threadIdx.x % 32 == 0) arrive(barrier);
}

}  // namespace fk::cuda
