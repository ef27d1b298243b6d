// TopKPerRow on CUDA: a block per row finds the k-th largest key by radix selection, eight bits at a time, then takes
// the larger ones, and of the equal ones the first, in order.
#include "ops/l1/top_k_per_row.h"

#include <algorithm>

#include "backend/cuda/device/launch.cuh"
#include "backend/cuda/device/reduce.cuh"
#include "backend/cuda/l1/call.h"
#include "ops/register.h"

namespace fk::cuda {
namespace {

constexpr int kSelectThreads = 1024, kSelectWarps = kSelectThreads / 32;

// An integer with the order of the float. Zeros of either sign are equal, and NaN is above everything.
__device__ __forceinline__ uint32_t select_key(float x) {
  const uint32_t bits = __float_as_uint(x + 0.0f);
  if (x != x) return 0xffffffffu;
  return (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
}

__global__ void __launch_bounds__(kSelectThreads)
    select_rows(const float* logits, int64_t logit_stride, const int64_t* positions, int64_t position_stride,
                int32_t* indices, int64_t index_stride, int row, int k) {
  __shared__ unsigned histogram[256];
  __shared__ unsigned chosen_digit, above;
  __shared__ unsigned larger_of[kSelectWarps], equal_of[kSelectWarps];
  let_next_start();
  wait_for_previous();
  const int64_t t = blockIdx.x, position = positions[t * position_stride];
  const int n = static_cast<int>(position + 1 < row ? (position + 1 > 0 ? position + 1 : 0) : row);
  const float* x = logits + t * logit_stride;
  int32_t* to = indices + t * index_stride;
  if (n <= k) {
    for (int i = threadIdx.x; i < k; i += kSelectThreads) to[i] = i < n ? i : -1;
    return;
  }

  // Of the keys that begin with `prefix`, the wanted-th largest is looked for.
  uint32_t prefix = 0, mask = 0;
  unsigned wanted = static_cast<unsigned>(k);
  for (int shift = 24; shift >= 0; shift -= 8) {
    for (int i = threadIdx.x; i < 256; i += kSelectThreads) histogram[i] = 0;
    __syncthreads();
    for (int j = threadIdx.x; j < n; j += kSelectThreads) {
      const uint32_t key = select_key(x[j]);
      if ((key & mask) == prefix) atomicAdd(&histogram[key >> shift & 255], 1u);
    }
    __syncthreads();
    if (threadIdx.x == 0) {
      unsigned seen = 0;
      int digit = 255;
      while (digit > 0 && seen + histogram[digit] < wanted) seen += histogram[digit--];
      chosen_digit = static_cast<unsigned>(digit);
      above = seen;
    }
    __syncthreads();
    prefix |= chosen_digit << shift;
    mask |= 255u << shift;
    wanted -= above;
    __syncthreads();  // before the next round writes them
  }

  // `wanted` of the keys equal to `prefix` are taken, and all larger ones.
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  unsigned larger_before = 0, equal_before = 0;
  for (int first = 0; first < n; first += kSelectThreads) {
    const int j = first + static_cast<int>(threadIdx.x);
    const uint32_t key = j < n ? select_key(x[j]) : 0;
    const bool larger = j < n && key > prefix, equal = j < n && key == prefix;
    const unsigned larger_lanes = __ballot_sync(kAllLanes, larger), equal_lanes = __ballot_sync(kAllLanes, equal);
    if (lane == 0) {
      larger_of[warp] = __popc(larger_lanes);
      equal_of[warp] = __popc(equal_lanes);
    }
    __syncthreads();
    unsigned larger_here = larger_before, equal_here = equal_before, larger_all = 0, equal_all = 0;
    for (int w = 0; w < kSelectWarps; ++w) {
      if (w < warp) {
        larger_here += larger_of[w];
        equal_here += equal_of[w];
      }
      larger_all += larger_of[w];
      equal_all += equal_of[w];
    }
    const unsigned lower = (1u << lane) - 1;
    larger_here += __popc(larger_lanes & lower);
    equal_here += __popc(equal_lanes & lower);
    if (larger || (equal && equal_here < wanted)) to[larger_here + min(equal_here, wanted)] = j;
    larger_before += larger_all;
    equal_before += equal_all;
    __syncthreads();
  }
}

class TopKPerRowRadix final : public TopKPerRow {
 public:
  using TopKPerRow::TopKPerRow;

  std::string_view refuse(Args args) const override { return refuse_call(args); }

  void forward(Context& ctx, View logits, View positions, View indices) override {
    launch("top_k_per_row", select_rows, static_cast<unsigned>(logits.size(0)), kSelectThreads, 0, ctx.stream,
           logits.ptr<float>(), logits.stride(0), positions.ptr<int64_t>(), positions.stride(0), indices.ptr<int32_t>(),
           indices.stride(0), static_cast<int>(logits.size(1) * logits.size(2)), static_cast<int>(init_.top_k));
  }
};

FK_IMPLEMENTATION(TopKPerRow, TopKPerRowRadix, "cuda.radix_select", DeviceKind::kCuda, 0, nullptr);

}  // namespace
}  // namespace fk::cuda
