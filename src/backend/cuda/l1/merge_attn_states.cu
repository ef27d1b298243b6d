// MergeAttnStates on CUDA: a warp per query and head.
#include "ops/l1/merge_attn_states.h"

#include "backend/cuda/device/element.cuh"
#include "backend/cuda/device/launch.cuh"
#include "backend/cuda/l1/call.h"
#include "ops/register.h"

namespace fk::cuda {
namespace {

constexpr int kMergeWarps = 4;

template <class T>
struct MergedHeads {
  T* at;
  int64_t token, head;
};
struct MergedLse {
  const float* at;
  int64_t head, token;
};

template <class T>
__global__ void __launch_bounds__(32 * kMergeWarps)
    merge_heads(MergedHeads<const T> prefix, MergedLse prefix_lse, MergedHeads<const T> suffix, MergedLse suffix_lse,
                MergedHeads<T> out, int heads, int head_size) {
  let_next_start();
  wait_for_previous();
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, h = blockIdx.y * kMergeWarps + warp;
  const int64_t t = blockIdx.x;
  if (h >= heads) return;
  const float a = prefix_lse.at[h * prefix_lse.head + t * prefix_lse.token];
  const float b = suffix_lse.at[h * suffix_lse.head + t * suffix_lse.token];
  const bool has_a = !isinf(a), has_b = !isinf(b);
  const float largest = fmaxf(a, b), from_a = has_a ? expf(a - largest) : 0.0f, from_b = has_b ? expf(b - largest) : 0.0f;
  const float sum = from_a + from_b;
  // A NaN stays one; what has no keys may hold anything, and is not used.
  const float share_a = has_a ? from_a / sum : 0.0f, share_b = has_b ? from_b / sum : 0.0f;
  for (int i = lane; i < head_size; i += 32) {
    float value = 0;
    if (has_a) value += share_a * to_float(prefix.at[t * prefix.token + h * prefix.head + i]);
    if (has_b) value += share_b * to_float(suffix.at[t * suffix.token + h * suffix.head + i]);
    out.at[t * out.token + h * out.head + i] = from_float<T>(value);
  }
}

class MergeAttnStatesWarps final : public MergeAttnStates {
 public:
  using MergeAttnStates::MergeAttnStates;

  std::string_view refuse(Args args) const override {
    if (args[1]->dtype() != DType::kF32 || args[3]->dtype() != DType::kF32) return "lse must be f32";
    return refuse_floats({&args[0], &args[2], &args[4]});
  }

  void forward(Context& ctx, View prefix_output, View prefix_lse, View suffix_output, View suffix_lse,
               View output) override {
    auto lse = [](const View& v) { return MergedLse{v.ptr<float>(), v.stride(0), v.stride(1)}; };
    with_float_type(output.dtype(), [&](auto type) {
      using T = typename decltype(type)::type;
      auto given = [](const View& v) {
        return MergedHeads<const T>{static_cast<const T*>(v.data()), v.stride(0), v.stride(1)};
      };
      launch("merge_attn_states", merge_heads<T>,
             dim3(static_cast<unsigned>(output.size(0)), blocks_for(init_.num_heads, kMergeWarps)), 32 * kMergeWarps, 0,
             ctx.stream, given(prefix_output), lse(prefix_lse), given(suffix_output), lse(suffix_lse),
             MergedHeads<T>{static_cast<T*>(output.data()), output.stride(0), output.stride(1)},
             static_cast<int>(init_.num_heads), static_cast<int>(init_.head_size));
    });
  }
};

FK_IMPLEMENTATION(MergeAttnStates, MergeAttnStatesWarps, "cuda.warp_per_head", DeviceKind::kCuda, 0, nullptr);

}  // namespace
}  // namespace fk::cuda
