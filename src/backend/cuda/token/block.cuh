// How a block of the token kernel is made up: warps that compute, and some that fetch weights for them.
#pragma once

#include "backend/cuda/device/mbarrier.cuh"

namespace fk::cuda {

inline constexpr int kTokenWarps = 16;
inline constexpr int kTokenThreads = 32 * kTokenWarps;  // that compute: the first of the block
inline constexpr int kFetchingWarps = 4;
inline constexpr int kFetchingThreads = 32 * kFetchingWarps;
inline constexpr int kLaunchThreads = kTokenThreads + kFetchingThreads;

// A block gets kLaunchRegisters for every thread when it starts; what the fetching ones give back the others can take.
inline constexpr int kLaunchRegisters = 96, kComputingRegisters = 104, kFetchingRegisters = 64;
static_assert(kLaunchThreads * kLaunchRegisters <= 65536);
static_assert(kTokenThreads * kComputingRegisters + kFetchingThreads * kFetchingRegisters <=
              kLaunchThreads * kLaunchRegisters);

// Where all computing threads meet; the fetching warp goes its own way, so this is not __syncthreads.
__device__ __forceinline__ void meet() { meet(1, kTokenThreads); }

}  // namespace fk::cuda
