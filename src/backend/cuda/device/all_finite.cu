// Whether a tensor on the device is free of NaNs and infinities: logits of new requests are looked at in every step.
#include <algorithm>

#include "backend/cuda/device/element.cuh"
#include "backend/cuda/device/launch.cuh"
#include "backend/cuda/device/measure.h"

namespace fk::cuda {
namespace {

template <class T>
__global__ void find_not_finite(const T* values, int64_t count, unsigned* found) {
  wait_for_previous();
  bool finite = true;
  for (int64_t i = blockIdx.x * static_cast<int64_t>(blockDim.x) + threadIdx.x; i < count;
       i += static_cast<int64_t>(gridDim.x) * blockDim.x)
    finite = finite && isfinite(to_float(values[i]));
  if (!finite) *found = 1;
}

}  // namespace

void launch_find_not_finite(const View& values, unsigned* found, void* stream) {
  constexpr int kThreads = 256;
  constexpr int64_t kMostBlocks = 2048, kPerThread = 16;
  const auto blocks =
      static_cast<unsigned>(std::min<int64_t>(kMostBlocks, blocks_for(values.numel(), kThreads * kPerThread)));
  with_float_type(values.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    launch("find_not_finite", find_not_finite<T>, blocks, kThreads, 0, stream, static_cast<const T*>(values.data()),
           values.numel(), found);
  });
}

}  // namespace fk::cuda
