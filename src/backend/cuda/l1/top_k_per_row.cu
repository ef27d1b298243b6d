// TopKPerRow on CUDA: a block per row finds the k-th largest key by radix selection, then takes the larger ones, and of
// the equal ones the first, in order. Threads hold the keys of rows of up to 32768 elements in registers, each a run of
// neighbours, and select by 11 bits at a time; longer rows are read again for every 8 bits.
#include "ops/l1/top_k_per_row.h"

#include <algorithm>

#include "backend/cuda/device/launch.cuh"
#include "backend/cuda/l1/call.h"
#include "backend/cuda/l1/latent_parts.h"
#include "backend/cuda/l1/select_keys.cuh"
#include "ops/register.h"

namespace fk::cuda {
namespace {

template <int kHeld>
__global__ void __launch_bounds__(kSelectThreads) select_held_rows(const __grid_constant__ SelectCall c) {
  constexpr int kBins = 2 * kSelectThreads;
  __shared__ unsigned histogram[kBins];
  __shared__ unsigned chosen_digit, above;
  __shared__ unsigned totals[2][kSelectWarps];
  let_next_start();
  wait_for_previous();
  const int64_t t = blockIdx.x;
  const int n = c.keys(t), tid = threadIdx.x;
  int32_t* to = c.indices + t * c.index_stride;
  if (n <= c.k) {
    for (int i = tid; i < c.k; i += kSelectThreads) to[i] = i < n ? i : -1;
    return;
  }
  const int each = (n + kSelectThreads - 1) / kSelectThreads, first = tid * each, count = min(each, n - first);
  const float* x = c.logits + t * c.logit_stride + first;
  uint32_t keys[kHeld];
#pragma unroll
  for (int i = 0; i < kHeld; ++i) keys[i] = i < count ? select_key(x[i]) : 0;

  // Of the keys that begin with `prefix`, the wanted-th largest is looked for.
  uint32_t prefix = 0, mask = 0;
  auto wanted = static_cast<unsigned>(c.k);
#pragma unroll
  for (int round = 0; round < 3; ++round) {
    const int shift = round == 0 ? 21 : round == 1 ? 10 : 0;
    const uint32_t digits = round == 2 ? 1023 : 2047;
    histogram[tid] = histogram[tid + kSelectThreads] = 0;
    __syncthreads();
#pragma unroll
    for (int i = 0; i < kHeld; ++i)
      if (i < count && (keys[i] & mask) == prefix) atomicAdd(&histogram[keys[i] >> shift & digits], 1u);
    __syncthreads();
    // Two digits for each thread, the largest first.
    const int high = kBins - 1 - 2 * tid;
    const unsigned of_high = histogram[high], of_low = histogram[high - 1];
    const unsigned before = sum_before(of_high + of_low, totals[0]);
    if (before < wanted && wanted <= before + of_high + of_low) {
      const bool is_high = wanted <= before + of_high;
      chosen_digit = static_cast<unsigned>(is_high ? high : high - 1);
      above = is_high ? before : before + of_high;
    }
    __syncthreads();
    prefix |= chosen_digit << shift;
    mask |= digits << shift;
    wanted -= above;
    __syncthreads();  // before the next round writes them
  }

  // `wanted` of the keys equal to `prefix` are taken, and all larger ones.
  unsigned larger = 0, equal = 0;
#pragma unroll
  for (int i = 0; i < kHeld; ++i) {
    larger += i < count && keys[i] > prefix ? 1 : 0;
    equal += i < count && keys[i] == prefix ? 1 : 0;
  }
  larger = sum_before(larger, totals[0]);
  equal = sum_before(equal, totals[1]);
#pragma unroll
  for (int i = 0; i < kHeld; ++i) {
    if (i >= count || keys[i] < prefix) continue;
    const bool is_equal = keys[i] == prefix;
    if (!is_equal || equal < wanted) to[larger + min(equal, wanted)] = first + i;
    larger += is_equal ? 0 : 1;
    equal += is_equal ? 1 : 0;
  }
}

__global__ void __launch_bounds__(kSelectThreads) select_rows(const __grid_constant__ SelectCall c) {
  __shared__ unsigned histogram[256];
  __shared__ unsigned chosen_digit, above;
  __shared__ unsigned larger_of[kSelectWarps], equal_of[kSelectWarps];
  let_next_start();
  wait_for_previous();
  const int64_t t = blockIdx.x;
  const int n = c.keys(t), k = c.k;
  const float* x = c.logits + t * c.logit_stride;
  int32_t* to = c.indices + t * c.index_stride;
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
    if (threadIdx.x < 32) {  // eight digits for each lane, the largest first
      int digit = 255 - 8 * static_cast<int>(threadIdx.x);
      unsigned mine = 0;
      for (int i = 0; i < 8; ++i) mine += histogram[digit - i];
      unsigned seen = scan_warp(mine) - mine;
      if (seen < wanted && wanted <= seen + mine) {
        while (seen + histogram[digit] < wanted) seen += histogram[digit--];
        chosen_digit = static_cast<unsigned>(digit);
        above = seen;
      }
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
    const SelectCall call = select_call(logits, positions, indices, init_.top_k);
    auto* kernel = call.row <= 8 * kSelectThreads    ? select_held_rows<8>
                   : call.row <= 32 * kSelectThreads ? select_held_rows<32>
                                                     : select_rows;
    launch("top_k_per_row", kernel, static_cast<unsigned>(logits.size(0)), kSelectThreads, 0, ctx.stream, call);
  }
};

FK_IMPLEMENTATION(TopKPerRow, TopKPerRowRadix, "cuda.radix_select", DeviceKind::kCuda, 0, nullptr);

}  // namespace

void top_k_per_row(Context& ctx, const TopKPerRow::Init& init, const View& logits, const View& positions,
                   const View& indices) {
  if (!top_k_by_clusters(ctx, init, logits, positions, indices))
    TopKPerRowRadix(init).forward(ctx, logits, positions, indices);
}

}  // namespace fk::cuda
