// Sets the number of registers per thread of this warpgroup from here on (setmaxnreg); registers that one releases
// another can use. All four warps must execute it, in an if without an else branch. No effect before Hopper.
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
