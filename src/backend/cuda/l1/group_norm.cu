// GroupNorm on CUDA: a warp for each group, which is read three times, the second and third time from a cache.
#include "ops/l1/group_norm.h"

#include "backend/cuda/device/launch.cuh"
#include "backend/cuda/device/reduce.cuh"
#include "backend/cuda/l1/call.h"
#include "backend/cuda/l1/packs.cuh"
#include "ops/register.h"

namespace fk::cuda {
namespace {

constexpr int kGroupNormWarps = 4;

template <class T>
__global__ void __launch_bounds__(32 * kGroupNormWarps)
    group_norm_rows(const T* x, int64_t x_stride, const T* weight, const T* bias, T* out, int64_t out_stride,
                    int64_t groups, int64_t per_row, int width, float eps) {
  let_next_start();
  wait_for_previous();
  const int lane = threadIdx.x % 32;
  const int64_t group = static_cast<int64_t>(blockIdx.x) * kGroupNormWarps + threadIdx.x / 32;
  if (group >= groups) return;  // whole warps
  const int64_t row = group / per_row, first = group % per_row * width;
  const T* from = x + row * x_stride + first;
  T* to = out + row * out_stride + first;
  float sum = 0;
  for (int i = lane; i < width; i += 32) sum += to_float(from[i]);
  const float mean = reduce_warp<Sum>(sum) / static_cast<float>(width);
  float squares = 0;
  for (int i = lane; i < width; i += 32) {
    const float away = to_float(from[i]) - mean;
    squares = fmaf(away, away, squares);
  }
  const float scale = 1.0f / sqrtf(reduce_warp<Sum>(squares) / static_cast<float>(width) + eps);
  for (int i = lane; i < width; i += 32) {
    const float normed = (to_float(from[i]) - mean) * scale * to_float(weight[first + i]);
    to[i] = from_float<T>(bias == nullptr ? normed : normed + to_float(bias[first + i]));
  }
}

class GroupNormWarpPerGroup final : public GroupNorm {
 public:
  using GroupNorm::GroupNorm;

  std::string_view refuse(Args args) const override { return refuse_floats({&args[0], &args[1]}); }

  void forward(Context& ctx, View x, View out) override {
    with_float_type(x.dtype(), [&](auto type) {
      using T = typename decltype(type)::type;
      const int64_t groups = x.size(0) * init_.num_groups;
      launch("group_norm", group_norm_rows<T>, blocks_for(groups, kGroupNormWarps), 32 * kGroupNormWarps, 0, ctx.stream,
             static_cast<const T*>(x.data()), x.stride(0), static_cast<const T*>(weight().data()),
             init_.bias ? static_cast<const T*>(bias()->data()) : nullptr, static_cast<T*>(out.data()), out.stride(0),
             groups, init_.num_groups, static_cast<int>(init_.hidden_size / init_.num_groups),
             static_cast<float>(init_.eps));
    });
  }
};

FK_IMPLEMENTATION(GroupNorm, GroupNormWarpPerGroup, "cuda.warp_per_group", DeviceKind::kCuda, 0, nullptr);

}  // namespace
}  // namespace fk::cuda
