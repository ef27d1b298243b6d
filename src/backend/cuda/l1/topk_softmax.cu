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
struct SoftmaxChoice {
  RowsOf<const T> logits;
  RowsOf<float> weights;
  RowsOf<int32_t> ids;
  int64_t tokens;
  int experts, top_k;
  bool renormalize;

  // By a warp. sum: of the exponentials of all logits, 0 with `renormalize`; take_best gives the next best.
  template <class TakeBest>
  __device__ __forceinline__ void choose(int64_t token, float largest, float sum, TakeBest&& take_best) const {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    float* weight = weights.row(token);
    int32_t* id = ids.row(token);
    for (int j = 0; j < top_k; ++j) {
      const Best best = take_best();
      const float exponential = expf(from_order_key(best.key) - largest);
      if (renormalize) sum += exponential;
      if (lane != j % 32) continue;
      weight[j] = exponential;
      id[j] = best.index;
    }
    // A lane divides what it wrote itself.
    for (int j = lane; j < top_k; j += 32) weight[j] /= sum;
  }
};

// With the keys in registers, kEach for each lane.
template <class T, int kEach>
__global__ void __launch_bounds__(32 * kWarps) choose_of_held(const __grid_constant__ SoftmaxChoice<T> c) {
  let_next_start();
  wait_for_previous();
  const int lane = threadIdx.x % 32;
  const int64_t token = static_cast<int64_t>(blockIdx.x) * kWarps + threadIdx.x / 32;
  if (token >= c.tokens) return;  // whole warps
  const T* x = c.logits.row(token);
  HeldKeys<kEach> keys;
  float largest = Max::kNeutral;
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    const bool inside = lane + 32 * i < c.experts;
    keys.at[i] = inside ? order_key(to_float(x[lane + 32 * i])) : kTaken;
    if (inside) largest = fmaxf(largest, from_order_key(keys.at[i]));
  }
  largest = reduce_warp<Max>(largest);
  float sum = 0;
  if (!c.renormalize) {
#pragma unroll
    for (int i = 0; i < kEach; ++i)
      if (lane + 32 * i < c.experts) sum += expf(from_order_key(keys.at[i]) - largest);
    sum = reduce_warp<Sum>(sum);
  }
  c.choose(token, largest, sum, [&] { return keys.take_best(); });
}

// With the keys in shared memory.
template <class T>
__global__ void __launch_bounds__(32 * kWarps) choose_by_softmax(const __grid_constant__ SoftmaxChoice<T> c) {
  extern __shared__ uint32_t keys_of_block[];
  let_next_start();
  wait_for_previous();
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int64_t token = static_cast<int64_t>(blockIdx.x) * kWarps + warp;
  if (token >= c.tokens) return;  // whole warps
  uint32_t* keys = keys_of_block + warp * c.experts;
  const T* x = c.logits.row(token);
  float largest = Max::kNeutral;
  for (int i = lane; i < c.experts; i += 32) {
    keys[i] = order_key(to_float(x[i]));
    largest = fmaxf(largest, from_order_key(keys[i]));
  }
  largest = reduce_warp<Max>(largest);
  float sum = 0;
  if (!c.renormalize) {
    for (int i = lane; i < c.experts; i += 32) sum += expf(from_order_key(keys[i]) - largest);
    sum = reduce_warp<Sum>(sum);
  }
  c.choose(token, largest, sum, [&] { return take_best(keys, c.experts); });
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
      const SoftmaxChoice<T> call{.logits = rows_of<const T>(gating_output),
                                  .weights = rows_of<float>(topk_weights),
                                  .ids = rows_of<int32_t>(topk_ids),
                                  .tokens = gating_output.size(0),
                                  .experts = static_cast<int>(init_.num_experts),
                                  .top_k = static_cast<int>(init_.top_k),
                                  .renormalize = init_.renormalize};
      auto start = [&](auto* kernel, int64_t shared) {
        launch("topk_softmax", kernel, blocks_for(call.tokens, kWarps), 32 * kWarps, static_cast<size_t>(shared),
               ctx.stream, call);
      };
      if (call.experts <= 32 * 4)
        start(choose_of_held<T, 4>, 0);
      else if (call.experts <= 32 * 16)
        start(choose_of_held<T, 16>, 0);
      else
        start(choose_by_softmax<T>, kWarps * 4 * init_.num_experts);
    });
  }
};

FK_IMPLEMENTATION(TopkSoftmax, TopkSoftmaxWarpPerToken, "cuda.warp_per_token", DeviceKind::kCuda, 0, nullptr);

}  // namespace
}  // namespace fk::cuda
