#include "backend/cuda/device/launch.cuh"

namespace fk::cuda {

bool has_hopper_launches() {
  static const bool answer = [] {
    int device = 0, major = 0;
    check(cudaGetDevice(&device), "Asking for the current device");
    check(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device), "Asking for the architecture");
    return major >= 9;
  }();
  return answer;
}

size_t shared_memory_of_block() {
  static const size_t answer = [] {
    int device = 0, bytes = 0;
    // A model may be looked at where there is no device.
    if (cudaGetDevice(&device) != cudaSuccess) {
      cudaGetLastError();
      return size_t{0};
    }
    check(cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device), "Asking for shared memory");
    return static_cast<size_t>(bytes);
  }();
  return answer;
}

}  // namespace fk::cuda
