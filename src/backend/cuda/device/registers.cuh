// How many registers a thread of this warpgroup may use from here on; what some give back others can take. All four
// warps of it must come by, in one branch of an if that has no other. Without Hopper's own instructions everybody keeps
// what he has.
#pragma once

namespace fk::cuda {

template <int kRegisters>
__device__ __forceinline__ void give_back_registers() {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
#endif
}

template <int kRegisters>
__device__ __forceinline__ void take_registers() {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
#endif
}

}  // namespace fk::cuda
