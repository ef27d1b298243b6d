// Common functions of the CUDA examples: sums and maxima over a block, and packs of 16 bytes.
#pragma once

#include <fastkernels/candidate.h>

template <class Join>
__device__ __forceinline__ float over_warp(float v, Join join) {
  for (int lanes = 16; lanes > 0; lanes /= 2) v = join(v, __shfl_xor_sync(0xffffffffu, v, lanes));
  return v;
}

// Every thread of the block gets the result; the block size is a multiple of 32. `neutral` is the neutral element.
template <class Join>
__device__ __forceinline__ float over_block(float v, float neutral, Join join) {
  __shared__ float parts[32];
  const unsigned warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  v = over_warp(v, join);
  if (lane == 0) parts[warp] = v;
  __syncthreads();
  v = over_warp(lane < blockDim.x / 32 ? parts[lane] : neutral, join);
  __syncthreads();  // the next reduction writes to `parts` again
  return v;
}

// On Hopper a kernel may start while the previous one ends (programmatic dependent launch) if it waits before it
// accesses memory: this saves 1 of the 2 us between two kernels.
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

inline bool on_hopper() {
  static const bool known = [] {
    int device = 0, major = 0;
    fk::check(cudaGetDevice(&device), "asking for the device");
    fk::check(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device), "asking for the device");
    return major >= 9;
  }();
  return known;
}

// `cluster`: size of a thread block cluster; more than one on Hopper only.
template <class... Params, class... Args>
void launch_early(const char* name, void (*kernel)(Params...), dim3 blocks, unsigned threads, unsigned cluster,
                  cudaStream_t stream, Args... args) {
  cudaLaunchAttribute attributes[2] = {};
  attributes[0].id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attributes[0].val.programmaticStreamSerializationAllowed = 1;
  attributes[1].id = cudaLaunchAttributeClusterDimension;
  attributes[1].val.clusterDim.x = cluster;
  attributes[1].val.clusterDim.y = attributes[1].val.clusterDim.z = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = blocks;
  config.blockDim = dim3(threads);
  config.stream = stream;
  config.attrs = attributes;
  config.numAttrs = !on_hopper() ? 0 : cluster > 1 ? 2 : 1;
  fk::check(cudaLaunchKernelEx(&config, kernel, static_cast<Params>(args)...), name);
}

struct Add {
  __device__ float operator()(float a, float b) const { return a + b; }
};
struct Larger {
  __device__ float operator()(float a, float b) const { return fmaxf(a, b); }
};

// The widest load or store of a thread.
template <class T>
struct alignas(16) Pack {
  static constexpr int kElements = 16 / int(sizeof(T));
  T at[kElements];
};

inline bool on_16_bytes(const fk::View& v, int64_t element_bytes) {
  bool aligned = reinterpret_cast<uintptr_t>(v.data()) % 16 == 0;
  for (int d = 0; d + 1 < v.rank(); ++d) aligned = aligned && v.stride(d) * element_bytes % 16 == 0;
  return aligned && v.size(-1) * element_bytes % 16 == 0;
}
