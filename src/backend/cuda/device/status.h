// Turns CUDA's status codes into errors that say what failed.
#pragma once

#include <cuda_runtime_api.h>

#include <string_view>

#include "core/error.h"

namespace fk::cuda {

inline void check(cudaError_t status, std::string_view what) {
  if (status == cudaSuccess) return;
  cudaGetLastError();  // clears the error code of the failed call
  throw Error("{} failed on the GPU: {} ({}).", what, cudaGetErrorString(status), cudaGetErrorName(status));
}

}  // namespace fk::cuda
