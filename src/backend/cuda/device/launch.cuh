// Kernel launches with programmatic dependent launch: a kernel may start while the previous one drains, and waits
// before it reads the previous one's results.
//
// A kernel launched with launch() must call wait_for_previous() in every thread before it touches memory that an
// earlier kernel may write or read, and may call let_next_start() as soon as its blocks have all the resources they
// need. Data that no kernel changes (weights) may be read before the wait: so a product can load its matrix while the
// norm before it still runs.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <utility>

#include "backend/cuda/device/capabilities.h"
#include "backend/cuda/device/status.h"

namespace fk::cuda {

__device__ __forceinline__ void wait_for_previous() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

__device__ __forceinline__ void let_next_start() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

struct LaunchShape {
  dim3 grid;
  dim3 block;
  size_t shared_bytes = 0;
  unsigned cluster = 1;  // size of a thread block cluster
  // All blocks run at once, or the launch fails. Such a kernel starts when the one before it has ended.
  bool cooperative = false;
};

template <class... Params, class... Args>
void launch(std::string_view name, void (*kernel)(Params...), const LaunchShape& shape, void* stream, Args&&... args) {
  if (shape.grid.x == 0 || shape.grid.y == 0 || shape.grid.z == 0) return;
  cudaLaunchAttribute attributes[2] = {};
  if (shape.cooperative) {
    attributes[0].id = cudaLaunchAttributeCooperative;
    attributes[0].val.cooperative = 1;
  } else {
    attributes[0].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attributes[0].val.programmaticStreamSerializationAllowed = 1;
  }
  attributes[1].id = cudaLaunchAttributeClusterDimension;
  attributes[1].val.clusterDim.x = shape.cluster;
  attributes[1].val.clusterDim.y = attributes[1].val.clusterDim.z = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = shape.grid;
  config.blockDim = shape.block;
  config.dynamicSmemBytes = shape.shared_bytes;
  config.stream = static_cast<cudaStream_t>(stream);
  config.attrs = attributes;
  config.numAttrs = shape.cooperative ? 1 : !has_hopper_launches() ? 0 : shape.cluster > 1 ? 2 : 1;
  check(cudaLaunchKernelEx(&config, kernel, static_cast<Params>(std::forward<Args>(args))...), name);
}

template <class... Params, class... Args>
void launch(std::string_view name, void (*kernel)(Params...), dim3 grid, dim3 block, size_t shared_bytes, void* stream,
            Args&&... args) {
  launch(name, kernel, LaunchShape{grid, block, shared_bytes}, stream, std::forward<Args>(args)...);
}

// More dynamic shared memory than the 48 KiB every kernel may have. Called once per kernel.
template <class Kernel>
void allow_shared_memory(std::string_view name, Kernel* kernel, size_t bytes) {
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes)), name);
}

inline unsigned blocks_for(int64_t items, int64_t per_block) {
  return static_cast<unsigned>((items + per_block - 1) / per_block);
}

}  // namespace fk::cuda
