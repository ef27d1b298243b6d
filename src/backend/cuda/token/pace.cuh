// How warps go about handing over slots of the ring: at once, or, to look for races, after a while that differs from
// warp to warp and from slot to slot. Whatever they do, the results must be the same bit by bit.
#pragma once

#include <cuda_runtime.h>

namespace fk::cuda {

struct AtOnce {
  __device__ __forceinline__ explicit AtOnce(unsigned) {}
  __device__ __forceinline__ void dawdle() {}
};

class Dawdling {
 public:
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

}  // namespace fk::cuda
