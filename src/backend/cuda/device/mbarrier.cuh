// Barriers in shared memory (mbarrier): who fills a buffer and who reads it wait for each other by phases.
//
// A barrier starts in phase 0 and enters the next when as many have arrived as it was made for. wait_phase(b, p)
// returns once the phase of parity p has ended; a fresh barrier passes for one whose phase of parity 1 has ended, which
// is how the first round of "the buffer is empty" needs nobody to arrive.
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
// .noinc: the arrival is one of those the barrier was made for.
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

// A hardware barrier that `threads` threads meet at: some wait, the others only let it be known that they came by.
// Number 0 is __syncthreads().
__device__ __forceinline__ void meet(int number, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(number), "r"(threads) : "memory");
}
__device__ __forceinline__ void come_by(int number, int threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(number), "r"(threads) : "memory");
}

}  // namespace fk::cuda
