// GroupedTopk on CUDA: a warp for each token.
#include "ops/l1/grouped_topk.h"

#include "backend/cuda/l1/call.h"
#include "backend/cuda/l1/expert_choice.cuh"
#include "backend/cuda/l1/map_rows.cuh"
#include "ops/register.h"

namespace fk::cuda {
namespace {

constexpr int kWarps = 4;
constexpr int64_t kMostExperts = 1024;  // three words for each expert of four tokens are 48 KiB at most

struct Choice {
  int experts, top_k, groups, top_groups;
  bool renormalize, sigmoid;
  float factor;
};

// The best expert of a group; with a bias the sum of the two best.
__device__ __forceinline__ float group_value(const uint32_t* keys, int size, bool two) {
  float first = Max::kNeutral, second = Max::kNeutral;
  for (int i = 0; i < size; ++i) {
    const float v = from_order_key(keys[i]);
    second = fmaxf(second, fminf(v, first));
    first = fmaxf(first, v);
  }
  return two && size > 1 ? first + second : first;
}

template <class T>
__global__ void __launch_bounds__(32 * kWarps)
    choose_by_groups(const RowsOf<const T> logits, const float* bias, const RowsOf<float> weights,
                     const RowsOf<int32_t> ids, int64_t tokens, const Choice c) {
  extern __shared__ uint32_t of_block[];
  let_next_start();
  wait_for_previous();
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int64_t token = static_cast<int64_t>(blockIdx.x) * kWarps + warp;
  if (token >= tokens) return;  // whole warps
  uint32_t* keys = of_block + warp * (2 * c.experts + c.groups);
  uint32_t* group_keys = keys + c.experts;
  float* scores = reinterpret_cast<float*>(group_keys + c.groups);
  const T* x = logits.row(token);

  float largest = Max::kNeutral, sum = 0;
  for (int i = lane; i < c.experts; i += 32) largest = fmaxf(largest, to_float(x[i]));
  largest = reduce_warp<Max>(largest);
  for (int i = lane; i < c.experts; i += 32) {
    const float v = to_float(x[i]);
    scores[i] = c.sigmoid ? 1.0f / (1.0f + expf(-v)) : expf(v - largest);
    sum += scores[i];
  }
  sum = reduce_warp<Sum>(sum);
  for (int i = lane; i < c.experts; i += 32) {
    if (!c.sigmoid) scores[i] /= sum;
    keys[i] = order_key(bias != nullptr ? scores[i] + bias[i] : scores[i]);
  }
  __syncwarp();
  if (c.top_groups < c.groups) {
    const int size = c.experts / c.groups;
    for (int g = lane; g < c.groups; g += 32)
      group_keys[g] = order_key(group_value(keys + g * size, size, bias != nullptr));
    for (int j = 0; j < c.top_groups; ++j) take_best(group_keys, c.groups);
    __syncwarp();
    for (int i = lane; i < c.experts; i += 32)
      if (group_keys[i / size] != kTaken) keys[i] = kTaken;
  }

  float* weight = weights.row(token);
  int32_t* id = ids.row(token);
  float chosen = 0;
  for (int j = 0; j < c.top_k; ++j) {
    const Best best = take_best(keys, c.experts);
    const float score = scores[best.index];
    chosen += score;
    if (lane != j % 32) continue;
    weight[j] = score;
    id[j] = best.index;
  }
  // A lane scales what it wrote itself.
  for (int j = lane; j < c.top_k; j += 32) weight[j] = (c.renormalize ? weight[j] / chosen : weight[j]) * c.factor;
}

class GroupedTopkWarpPerToken final : public GroupedTopk {
 public:
  using GroupedTopk::GroupedTopk;

  std::string_view refuse(Args args) const override {
    if (init_.num_experts > kMostExperts) return "it chooses of at most 1024 experts";
    if (args[2]->dtype() != DType::kF32 || args[3]->dtype() != DType::kI32)
      return "topk_weights must be f32 and topk_ids i32";
    if (!args[2]->rows_contiguous() || !args[3]->rows_contiguous()) return "rows of the outputs must be contiguous";
    if (args[1] && (args[1]->dtype() != DType::kF32 || !args[1]->contiguous()))
      return "e_score_correction_bias must be f32 and contiguous";
    return refuse_floats({&args[0]});
  }

  void forward(Context& ctx, View gating_output, OptView bias, View topk_weights, View topk_ids) override {
    const Choice choice{.experts = static_cast<int>(init_.num_experts),
                        .top_k = static_cast<int>(init_.top_k),
                        .groups = static_cast<int>(init_.num_expert_group),
                        .top_groups = static_cast<int>(init_.topk_group),
                        .renormalize = init_.renormalize,
                        .sigmoid = init_.scoring_func == "sigmoid",
                        .factor = static_cast<float>(init_.routed_scaling_factor)};
    with_float_type(gating_output.dtype(), [&](auto type) {
      using T = typename decltype(type)::type;
      launch("grouped_topk", choose_by_groups<T>, blocks_for(gating_output.size(0), kWarps), 32 * kWarps,
             static_cast<size_t>(kWarps * 4 * (2 * choice.experts + choice.groups)), ctx.stream,
             rows_of<const T>(gating_output), bias ? bias->template ptr<float>() : nullptr,
             rows_of<float>(topk_weights), rows_of<int32_t>(topk_ids), gating_output.size(0), choice);
    });
  }
};

FK_IMPLEMENTATION(GroupedTopk, GroupedTopkWarpPerToken, "cuda.warp_per_token", DeviceKind::kCuda, 0, nullptr);

}  // namespace
}  // namespace fk::cuda
