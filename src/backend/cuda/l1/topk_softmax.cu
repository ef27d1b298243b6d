// TopkSoftmax on CUDA: a warp for each token.
#include "ops/l1/topk_softmax.h"

#include "backend/cuda/l1/call.h"
#include "backend/cuda/l1/expert_choice.cuh"
#include "backend/cuda/l1/map_rows.cuh"
#include "ops/register.h"

namespace fk::cuda {
namespace {

constexpr int kWarps = 4;
constexpr int64_t kMostExperts = (48 << 10) / (kWarps * 4);  // whose keys fit into shared memory without asking

template <class T>
__global__ void __launch_bounds__(32 * kWarps)
    choose_by_softmax(const RowsOf<const T> logits, const RowsOf<float> weights, const RowsOf<int32_t> ids,
                      int64_t tokens, int experts, int top_k, bool renormalize) {
  extern __shared__ uint32_t keys_of_block[];
  let_next_start();
  wait_for_previous();
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int64_t token = static_cast<int64_t>(blockIdx.x) * kWarps + warp;
  if (token >= tokens) return;  // whole warps
  uint32_t* keys = keys_of_block + warp * experts;
  const T* x = logits.row(token);
  float largest = Max::kNeutral;
  for (int i = lane; i < experts; i += 32) {
    keys[i] = order_key(to_float(x[i]));
    largest = fmaxf(largest, from_order_key(keys[i]));
  }
  largest = reduce_warp<Max>(largest);
  float sum = 0;
  if (!renormalize) {
    for (int i = lane; i < experts; i += 32) sum += expf(from_order_key(keys[i]) - largest);
    sum = reduce_warp<Sum>(sum);
  }
  float* weight = weights.row(token);
  int32_t* id = ids.row(token);
  for (int j = 0; j < top_k; ++j) {
    const Best best = take_best(keys, experts);
    const float exponential = expf(from_order_key(best.key) - largest);
    if (renormalize) sum += exponential;
    if (lane != j % 32) continue;
    weight[j] = exponential;
    id[j] = best.index;
  }
  // A lane divides what it wrote itself.
  for (int j = lane; j < top_k; j += 32) weight[j] /= sum;
}

class TopkSoftmaxWarpPerToken final : public TopkSoftmax {
 public:
  using TopkSoftmax::TopkSoftmax;

  std::string_view refuse(Args args) const override {
    if (init_.num_experts > kMostExperts) return "it chooses of at most 3072 experts";
    if (args[1]->dtype() != DType::kF32 || args[2]->dtype() != DType::kI32)
      return "topk_weights must be f32 and topk_ids i32";
    if (!args[1]->rows_contiguous() || !args[2]->rows_contiguous()) return "rows of the outputs must be contiguous";
    return refuse_floats({&args[0]});
  }

  void forward(Context& ctx, View gating_output, View topk_weights, View topk_ids) override {
    with_float_type(gating_output.dtype(), [&](auto type) {
      using T = typename decltype(type)::type;
      launch("topk_softmax", choose_by_softmax<T>, blocks_for(gating_output.size(0), kWarps), 32 * kWarps,
             static_cast<size_t>(kWarps * 4 * init_.num_experts), ctx.stream, rows_of<const T>(gating_output),
             rows_of<float>(topk_weights), rows_of<int32_t>(topk_ids), gating_output.size(0),
             static_cast<int>(init_.num_experts), static_cast<int>(init_.top_k), init_.renormalize);
    });
  }
};

FK_IMPLEMENTATION(TopkSoftmax, TopkSoftmaxWarpPerToken, "cuda.warp_per_token", DeviceKind::kCuda, 0, nullptr);

}  // namespace
}  // namespace fk::cuda
