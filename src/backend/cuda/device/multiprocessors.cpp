#include "backend/cuda/device/multiprocessors.h"

#include "backend/cuda/device/status.h"

namespace fk::cuda {

int multiprocessors() {
  static const int count = [] {
    int device = 0, answer = 0;
    check(cudaGetDevice(&device), "Asking for the current device");
    check(cudaDeviceGetAttribute(&answer, cudaDevAttrMultiProcessorCount, device), "Counting multiprocessors");
    return answer;
  }();
  return count;
}

}  // namespace fk::cuda
