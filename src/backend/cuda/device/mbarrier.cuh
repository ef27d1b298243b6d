// Barriers in shared memory (mbarrier): synchronise producers and consumers of a buffer by phases.
//
// A barrier starts in phase 0 and enters the next phase when the expected number of arrivals is reached. wait_phase(b,
// p) returns once the phase of parity p has ended. On a new barrier the phase of parity 1 counts as ended, so the first
// wait for "the buffer is empty" returns at once.
#pragma once

#include <cstdint>

namespace fk::cuda {

__device__ __forceinline__ void init_barrier(uint32_t barrier, unsigned arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}

__device__ __forceinline__ void arrive(uint32_t barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

// Arrives when all copies this thread has started with copy_async so far are done; the thread does not wait for them.
// .noinc: the arrival counts towards the expected number.
__device__ __forceinline__ void arrive_after_copies(uint32_t barrier) {
  asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(barrier) : "memory");
}

__device__ __forceinline__ bool phase_ended(uint32_t barrier, uint32_t parity) {
  uint32_t ended;
  asm volatile(
      "{\n"
      ".reg .pred p;\n"
      "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
      "selp.u32 %0, 1, 0, p;\n"
      "}"
      : "=r"(ended)
      : "r"(barrier), "r"(parity)
      : "memory");
  return ended != 0;
}

__device__ __forceinline__ void wait_phase(uint32_t barrier, uint32_t parity) {
  while (!phase_ended(barrier, parity)) {
  }
}

// A named hardware barrier of `threads` threads: some wait, the others only arrive. Number 0 is __syncthreads().
__device__ __forceinline__ void meet(int number, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(number), "r"(threads) : "memory");
}
__device__ __forceinline__ void come_by(int number, int threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(number), "r"(threads) : "memory");
}

}  // namespace fk::cuda
