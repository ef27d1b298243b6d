// Dummy weights generated on the device: the formula of models/dummy_weights.h, bit-identical.
#include "backend/cuda/device/element.cuh"
#include "backend/cuda/device/launch.cuh"
#include "backend/cuda/device/measure.h"
#include "core/check.h"
#include "core/rng.h"

namespace fk::cuda {
namespace {

constexpr int kPerBlock = 8;  // elements a Philox block gives

template <class T>
__global__ void fill_dummy(T* out, int64_t count, uint64_t key, float offset, float step, int64_t first) {
  wait_for_previous();
  // Philox blocks are shared by 8 elements; `first` may lie inside one.
  const int64_t block_index = first / kPerBlock + blockIdx.x * static_cast<int64_t>(blockDim.x) + threadIdx.x;
  const PhiloxBlock words =
      philox4x32({static_cast<uint32_t>(block_index), static_cast<uint32_t>(block_index >> 32), 0, 0}, key);
#pragma unroll
  for (int i = 0; i < kPerBlock; ++i) {
    const int64_t at = block_index * kPerBlock + i - first;
    const uint32_t half = i % 2 == 0 ? words[i / 2] & 0xffffu : words[i / 2] >> 16;
    // No fused multiply-add: every step of the formula is rounded to float.
    const float value = __fadd_rn(offset, __fmul_rn(step, static_cast<float>(2 * static_cast<int32_t>(half) - 65535)));
    if (at >= 0 && at < count) out[at] = from_float<T>(value);
  }
}

}  // namespace

void launch_fill_dummy(const View& to, uint64_t key, float offset, float scale, int64_t first, void* stream) {
  FK_CHECK(to.contiguous() && first >= 0);
  constexpr int kThreads = 256;
  int64_t blocks = (first % kPerBlock + to.numel() + kPerBlock - 1) / kPerBlock;
  with_float_type(to.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    launch("fill_dummy", fill_dummy<T>, blocks_for(blocks, kThreads), kThreads, 0, stream, static_cast<T*>(to.data()),
           to.numel(), key, offset, scale * 0x1p-16f, first);
  });
}

int code_status(int index) {
  int current = 0;
  cudaGetDevice(&current);
  cudaSetDevice(index);
  cudaFuncAttributes attributes{};
  cudaError_t status = cudaFuncGetAttributes(&attributes, fill_dummy<float>);
  cudaGetLastError();
  cudaSetDevice(current);
  return status;
}

}  // namespace fk::cuda
