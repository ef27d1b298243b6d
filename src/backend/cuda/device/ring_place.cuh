// A slot index in a ring buffer in shared memory, and the parity of its round: producer and consumer each go through
// all slots in order, and the parity is that of the barriers' phases (mbarrier.cuh).
#pragma once

#include <cstdint>

namespace fk::cuda {

struct RingPlace {
  int slot = 0;
  uint32_t parity = 0;

  __device__ __forceinline__ void next(int slots) {
    if (++slot < slots) return;
    slot = 0;
    parity ^= 1;
  }
};

}  // namespace fk::cuda
