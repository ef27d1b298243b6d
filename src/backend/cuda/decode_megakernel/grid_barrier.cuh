// A barrier of all blocks of a kernel, which must all run at once (a cooperative launch guarantees that).
#pragma once

#include "backend/cuda/decode_megakernel/block.cuh"

namespace fk::cuda {

class GridBarrier {
 public:
  // `arrivals` is zero before the launch, and zero again after finish().
  __device__ explicit GridBarrier(unsigned* arrivals) : arrivals_(arrivals) {}

  // Earlier writes of this block are visible to all blocks after their wait. Thread `by` does not go on before they
  // are.
  __device__ __forceinline__ void arrive(unsigned by = 0) {
    meet();
    if (threadIdx.x == by) asm volatile("red.release.gpu.global.add.u32 [%0], 1;" ::"l"(arrivals_) : "memory");
    expected_ += gridDim.x;
  }

  __device__ __forceinline__ void wait() const {
    wait_here();
    meet();
  }

  // The same for one warp.
  __device__ __forceinline__ void wait_of_warp() const {
    if (threadIdx.x % 32 == 0) poll();
    __syncwarp();
  }

  // As wait(), for the load warps too, which call meet_all().
  __device__ __forceinline__ void wait_with_load_warps() const {
    wait_here();
    meet_all();
  }

  // Instead of a last arrive(): the last block resets the barrier for the next launch.
  __device__ __forceinline__ void finish() {
    meet();
    expected_ += gridDim.x;
    if (threadIdx.x == 0 && add_one() + 1 == expected_) *arrivals_ = 0;
  }

 private:
  __device__ __forceinline__ void wait_here() const {
    if (threadIdx.x == 0) poll();
  }

  __device__ __forceinline__ void poll() const {
    unsigned arrived;
    do {
      asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(arrived) : "l"(arrivals_) : "memory");
    } while (arrived < expected_);
  }

  __device__ __forceinline__ unsigned add_one() {
    unsigned before;
    asm volatile("atom.add.acq_rel.gpu.global.u32 %0, [%1], 1;" : "=r"(before) : "l"(arrivals_) : "memory");
    return before;
  }

  unsigned* arrivals_;
  unsigned expected_ = 0;
};

}  // namespace fk::cuda
