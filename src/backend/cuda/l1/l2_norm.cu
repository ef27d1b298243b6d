// L2Norm on CUDA: a warp for each row, which is read twice, the second time from a cache.
#include "ops/l1/l2_norm.h"

#include "backend/cuda/device/launch.cuh"
#include "backend/cuda/device/reduce.cuh"
#include "backend/cuda/l1/call.h"
#include "backend/cuda/l1/packs.cuh"
#include "ops/register.h"

namespace fk::cuda {
namespace {

constexpr int kL2NormWarps = 4;

template <class T, int N>
__global__ void __launch_bounds__(32 * kL2NormWarps)
    l2_norm_rows(const T* x, int64_t x_token, int64_t x_head, T* out, int64_t out_token, int64_t out_head, int64_t rows,
                 int64_t heads, int width, float eps) {
  let_next_start();
  wait_for_previous();
  const int lane = threadIdx.x % 32;
  const int64_t row = static_cast<int64_t>(blockIdx.x) * kL2NormWarps + threadIdx.x / 32;
  if (row >= rows) return;  // whole warps
  const T* from = x + row / heads * x_token + row % heads * x_head;
  T* to = out + row / heads * out_token + row % heads * out_head;
  float squares = 0;
  for (int i = lane * N; i < width; i += 32 * N) {
    const Pack<T, N> pack = load_pack<T, N>(from + i);
#pragma unroll
    for (int k = 0; k < N; ++k) squares = fmaf(to_float(pack.at[k]), to_float(pack.at[k]), squares);
  }
  const float scale = 1.0f / sqrtf(reduce_warp<Sum>(squares) + eps);
  for (int i = lane * N; i < width; i += 32 * N) {
    Pack<T, N> pack = load_pack<T, N>(from + i);
#pragma unroll
    for (int k = 0; k < N; ++k) pack.at[k] = from_float<T>(to_float(pack.at[k]) * scale);
    store_pack<T, N>(to + i, pack);
  }
}

class L2NormWarpPerRow final : public L2Norm {
 public:
  using L2Norm::L2Norm;

  std::string_view refuse(Args args) const override { return refuse_floats({&args[0], &args[1]}); }

  void forward(Context& ctx, View x, View out) override {
    with_packs(x.dtype(), rows_fit_packs(x) && rows_fit_packs(out), [&](auto type, auto n) {
      using T = typename decltype(type)::type;
      constexpr int N = decltype(n)::value;
      const int64_t rows = x.size(0) * x.size(1);
      launch("l2_norm", l2_norm_rows<T, N>, blocks_for(rows, kL2NormWarps), 32 * kL2NormWarps, 0, ctx.stream,
             static_cast<const T*>(x.data()), x.stride(0), x.stride(1), static_cast<T*>(out.data()), out.stride(0),
             out.stride(1), rows, x.size(1), static_cast<int>(x.size(2)), static_cast<float>(init_.eps));
    });
  }
};

FK_IMPLEMENTATION(L2Norm, L2NormWarpPerRow, "cuda.warp_per_row", DeviceKind::kCuda, 0, nullptr);

}  // namespace
}  // namespace fk::cuda
