// How a warp signals that a slot of the ring is ready. Normally at once, with one arrival per warp. Two other modes,
// chosen by FASTKERNELS_DEBUG_HANDOVER, help to find races; results are bit-identical in all modes.
#pragma once

#include <cuda_runtime.h>

#include "backend/cuda/device/mbarrier.cuh"

namespace fk::cuda {

struct AtOnce {
  static constexpr unsigned kArrivals = 1;  // of a warp, for one slot
  __device__ __forceinline__ explicit AtOnce(unsigned) {}
  __device__ __forceinline__ void dawdle() {}
};

// Every lane arrives itself. compute-sanitizer's racecheck (2025.3) does not understand that one lane that arrives
// after __syncwarp covers its warp, and reports a race between the other lanes and the waiting warps.
struct EveryLane : AtOnce {
  static constexpr unsigned kArrivals = 32;
  using AtOnce::AtOnce;
};

// After a delay that differs from warp to warp and from slot to slot: data that is used too early gives wrong results.
class Dawdling {
 public:
  static constexpr unsigned kArrivals = 1;
  __device__ __forceinline__ explicit Dawdling(unsigned seed)
      : state_((seed * 0x9E3779B9u) ^ (blockIdx.x * 0x85EBCA6Bu) ^ (threadIdx.x / 32 * 0xC2B2AE35u) ^ 1u) {}

  // One time in eight, up to two microseconds; the same for all lanes.
  __device__ __forceinline__ void dawdle() {
    state_ ^= state_ << 13;
    state_ ^= state_ >> 17;
    state_ ^= state_ << 5;
    if (state_ % 8 == 0) __nanosleep(state_ / 8 % 2048);
  }

 private:
  unsigned state_;
};

// Signals `barrier`: the calling warp is done.
template <class Handover>
__device__ __forceinline__ void hand_over(uint32_t barrier) {
  __syncwarp();
  if (Handover::kArrivals == 32 || threadIdx.x % 32 == 0) arrive(barrier);
}

}  // namespace fk::cuda
