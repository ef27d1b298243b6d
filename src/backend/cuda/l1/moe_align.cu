// MoeAlign on CUDA: a counting sort by one block. Each warp has a run of consecutive pairs, which it counts and then
// places, so that the pairs of an expert stay in order.
#include "ops/l1/moe_align.h"

#include <algorithm>

#include "backend/cuda/device/launch.cuh"
#include "backend/cuda/device/reduce.cuh"
#include "backend/cuda/l1/sort_pairs.h"
#include "ops/register.h"

namespace fk::cuda {
namespace {

constexpr int kMostWarps = 32;
constexpr int64_t kMostCounts = (48 << 10) / 4;    // that fit into shared memory
constexpr int64_t kMostExperts = kMostCounts / 2;  // counts of one warp, and their totals

struct Pairs {
  const int32_t* ids;
  int64_t token_stride;
  int count, top_k, experts;

  // Ids outside the experts would be written outside the counts.
  __device__ __forceinline__ int expert(int pair) const {
    const int id = ids[pair / top_k * token_stride + pair % top_k];
    return min(max(id, 0), experts - 1);
  }
};

__global__ void __launch_bounds__(32 * kMostWarps) counting_sort(const Pairs pairs, int32_t* sorted, int32_t* offsets) {
  extern __shared__ int32_t counts[];  // [warp][expert]: how many pairs, then where the next one goes
  let_next_start();
  wait_for_previous();
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, warps = blockDim.x / 32, experts = pairs.experts;
  int32_t* totals = counts + warps * experts;  // of each expert, then where its first pair goes
  int32_t* mine = counts + warp * experts;
  for (int i = threadIdx.x; i < warps * experts; i += blockDim.x) counts[i] = 0;
  __syncthreads();
  const int run = ((pairs.count + warps - 1) / warps + 31) / 32 * 32;
  const int begin = min(warp * run, pairs.count), end = min(begin + run, pairs.count);
  for (int pair = begin + lane; pair < end; pair += 32) atomicAdd(&mine[pairs.expert(pair)], 1);
  __syncthreads();
  for (int e = threadIdx.x; e < experts; e += blockDim.x) {
    int before = 0;
    for (int w = 0; w < warps; ++w) {
      const int count = counts[w * experts + e];
      counts[w * experts + e] = before;
      before += count;
    }
    totals[e] = before;
  }
  __syncthreads();
  if (warp == 0) {
    int before = 0;
    for (int first = 0; first < experts; first += 32) {
      const int e = first + lane, count = e < experts ? totals[e] : 0;
      int sum = count;
#pragma unroll
      for (int lanes = 1; lanes < 32; lanes *= 2) {
        const int other = __shfl_up_sync(kAllLanes, sum, lanes);
        if (lane >= lanes) sum += other;
      }
      if (e < experts) {
        totals[e] = before + sum - count;
        offsets[e] = before + sum - count;
      }
      before += __shfl_sync(kAllLanes, sum, 31);
    }
    if (lane == 0) offsets[experts] = before;
  }
  __syncthreads();
  for (int first = begin; first < end; first += 32) {
    const int pair = first + lane;
    const bool exists = pair < end;
    const int expert = exists ? pairs.expert(pair) : -1;
    const unsigned same = __match_any_sync(kAllLanes, expert);
    const int earlier = __popc(same & ((1u << lane) - 1));
    if (exists) sorted[totals[expert] + mine[expert] + earlier] = pair;
    __syncwarp();
    if (exists && earlier == 0) mine[expert] += __popc(same);
    __syncwarp();
  }
}

class MoeAlignCountingSort final : public MoeAlign {
 public:
  using MoeAlign::MoeAlign;

  std::string_view refuse(Args args) const override {
    for (const OptView& v : args) {
      if (v->dtype() != DType::kI32) return "ids and offsets must be i32";
      if (!v->rows_contiguous()) return "the last dimension of its tensors must be contiguous";
    }
    return sort_pairs_refusal(init_.num_experts, args[1]->size(0));
  }

  void forward(Context& ctx, View topk_ids, View sorted_token_ids, View expert_offsets) override {
    sort_pairs(topk_ids, init_.num_experts, sorted_token_ids, expert_offsets, ctx.stream);
  }
};

FK_IMPLEMENTATION(MoeAlign, MoeAlignCountingSort, "cuda.counting_sort", DeviceKind::kCuda, 0, nullptr);

}  // namespace

std::string_view sort_pairs_refusal(int64_t num_experts, int64_t pairs) {
  if (num_experts > kMostExperts) return "it sorts by at most 6144 experts";
  if (pairs > INT32_MAX / 2) return "there are too many pairs for 32-bit indices";
  return {};
}

void sort_pairs(const View& topk_ids, int64_t num_experts, const View& sorted, const View& offsets, void* stream) {
  const Pairs pairs{.ids = topk_ids.ptr<int32_t>(),
                    .token_stride = topk_ids.stride(0),
                    .count = static_cast<int>(sorted.size(0)),
                    .top_k = static_cast<int>(topk_ids.size(1)),
                    .experts = static_cast<int>(num_experts)};
  const int most_warps = std::min(kMostWarps, static_cast<int>(kMostCounts / pairs.experts) - 1);
  const int warps = std::clamp(static_cast<int>(blocks_for(pairs.count, 32)), 1, most_warps);
  launch("moe_align", counting_sort, 1, static_cast<unsigned>(32 * warps),
         static_cast<size_t>((warps + 1) * pairs.experts) * sizeof(int32_t), stream, pairs, sorted.ptr<int32_t>(),
         offsets.ptr<int32_t>());
}

}  // namespace fk::cuda
