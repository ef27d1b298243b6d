// The warps of a block of the token kernel: some compute, some load weights for them.
#pragma once

#include "backend/cuda/decode_megakernel/pair_share.h"
#include "backend/cuda/device/mbarrier.cuh"

namespace fk::cuda {

inline constexpr int kTokenThreads = 32 * kTokenWarps;  // that compute: the first of the block
inline constexpr int kFetchingWarps = 4;
inline constexpr int kFetchingThreads = 32 * kFetchingWarps;
inline constexpr int kLaunchThreads = kTokenThreads + kFetchingThreads;

// A block starts with kLaunchRegisters per thread; registers that the load warps release can be used by the others.
inline constexpr int kLaunchRegisters = 96, kComputingRegisters = 104, kFetchingRegisters = 64;
static_assert(kLaunchThreads * kLaunchRegisters <= 65536);
static_assert(kTokenThreads * kComputingRegisters + kFetchingThreads * kFetchingRegisters <=
              kLaunchThreads * kLaunchRegisters);

// A barrier of all computing threads; the load warps do not take part, so this is not __syncthreads.
__device__ __forceinline__ void meet() { meet(1, kTokenThreads); }

// Hides a number from the compiler, which would otherwise compute before the loop over the layers what follows from it
// in each of them, and need more registers than there are.
__device__ __forceinline__ int hidden_from_compiler(int v) {
  asm volatile("" : "+r"(v));
  return v;
}

// A barrier of all threads of the block, the load warps too.
__device__ __forceinline__ void meet_all() { meet(2, kLaunchThreads); }

}  // namespace fk::cuda
