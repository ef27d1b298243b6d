// L2Flush: memory that is written to evict everything else from the L2, so that what is timed next reads its weights
// from memory, as it does in a model.
#pragma once

#include <cuda_runtime_api.h>

#include "backend/cuda/device/status.h"

namespace fk::cuda {

class L2Flush {
 public:
  L2Flush() {
    int device = 0, l2_bytes = 0;
    check(cudaGetDevice(&device), "Asking for the current device");
    check(cudaDeviceGetAttribute(&l2_bytes, cudaDevAttrL2CacheSize, device), "Asking for the size of the L2");
    bytes_ = 2 * static_cast<size_t>(l2_bytes);
    check(cudaMalloc(&memory_, bytes_), "Allocating memory to empty the L2");
  }
  ~L2Flush() { cudaFree(memory_); }
  L2Flush(const L2Flush&) = delete;
  L2Flush& operator=(const L2Flush&) = delete;

  void run(cudaStream_t stream) const { check(cudaMemsetAsync(memory_, 0, bytes_, stream), "Emptying the L2"); }

 private:
  void* memory_ = nullptr;
  size_t bytes_ = 0;
};

}  // namespace fk::cuda
