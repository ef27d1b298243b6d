#include "backend/cuda/device/capabilities.h"

#include "backend/cuda/device/status.h"

namespace fk::cuda {

namespace {
__global__ void any_kernel() {}
}  // namespace

bool has_hopper_launches() {
  static const bool answer = [] {
    // What the device runs counts, not what it is: of code for older GPUs it runs kernels that are empty.
    cudaFuncAttributes code{};
    check(cudaFuncGetAttributes(&code, any_kernel), "Asking for the architecture of the code");
    return code.ptxVersion >= 90;
  }();
  return answer;
}

std::string_view wgmma_unavailable() {
  static const std::string_view answer = []() -> std::string_view {
    if (std::string_view(FK_CUDA_ARCH).find("90a") == std::string_view::npos)
      return "it needs a build for architecture 90a (-DFK_CUDA_ARCH=90a)";
    int device = 0, major = 0, minor = 0;
    const bool asked = cudaGetDevice(&device) == cudaSuccess &&
                       cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device) == cudaSuccess &&
                       cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device) == cudaSuccess;
    cudaGetLastError();  // clears the error code of the failed call
    return asked && major == 9 && minor == 0 ? "" : "it needs a GPU of architecture 9.0";
  }();
  return answer;
}

size_t shared_memory_of_block() {
  static const size_t answer = [] {
    int device = 0, bytes = 0;
    // Models can be listed without a device.
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
