// UnweightedRMSNorm on CUDA: a warp for each row, which is read twice, the second time from a cache.
#include "ops/l1/unweighted_rms_norm.h"

#include "backend/cuda/device/launch.cuh"
#include "backend/cuda/device/reduce.cuh"
#include "backend/cuda/l1/call.h"
#include "backend/cuda/l1/packs.cuh"
#include "ops/register.h"

namespace fk::cuda {
namespace {

constexpr int kWarps = 4;

// Rows (t, h) of [T, H, D]; strides in elements.
template <class T>
struct Heads {
  T* at;
  int64_t token, head;

  __device__ __forceinline__ T* row(int64_t row, int64_t heads) const {
    return at + row / heads * token + row % heads * head;
  }
};

template <class T, int N>
__global__ void __launch_bounds__(32 * kWarps)
    norm_heads(const Heads<const T> x, const Heads<T> out, int64_t rows, int64_t heads, int width, float eps) {
  let_next_start();
  wait_for_previous();
  const int lane = threadIdx.x % 32;
  const int64_t row = static_cast<int64_t>(blockIdx.x) * kWarps + threadIdx.x / 32;
  if (row >= rows) return;  // whole warps
  const T* from = x.row(row, heads);
  T* to = out.row(row, heads);
  float squares = 0;
  for (int i = lane * N; i < width; i += 32 * N) {
    const Pack<T, N> pack = load_pack<T, N>(from + i);
#pragma unroll
    for (int k = 0; k < N; ++k) squares = fmaf(to_float(pack.at[k]), to_float(pack.at[k]), squares);
  }
  const float scale = 1.0f / sqrtf(reduce_warp<Sum>(squares) / static_cast<float>(width) + eps);
  for (int i = lane * N; i < width; i += 32 * N) {
    Pack<T, N> pack = load_pack<T, N>(from + i);
#pragma unroll
    for (int k = 0; k < N; ++k) pack.at[k] = from_float<T>(to_float(pack.at[k]) * scale);
    store_pack<T, N>(to + i, pack);
  }
}

class UnweightedRMSNormWarpPerRow final : public UnweightedRMSNorm {
 public:
  using UnweightedRMSNorm::UnweightedRMSNorm;

  std::string_view refuse(Args args) const override { return refuse_floats({&args[0], &args[1]}); }

  void forward(Context& ctx, View x, View out) override {
    with_packs(x.dtype(), rows_fit_packs(x) && rows_fit_packs(out), [&](auto type, auto n) {
      using T = typename decltype(type)::type;
      constexpr int N = decltype(n)::value;
      const int64_t rows = x.size(0) * x.size(1);
      launch("unweighted_rms_norm", norm_heads<T, N>, blocks_for(rows, kWarps), 32 * kWarps, 0, ctx.stream,
             Heads<const T>{static_cast<const T*>(x.data()), x.stride(0), x.stride(1)},
             Heads<T>{static_cast<T*>(out.data()), out.stride(0), out.stride(1)}, rows, x.size(1),
             static_cast<int>(x.size(2)), static_cast<float>(init_.eps));
    });
  }
};

FK_IMPLEMENTATION(UnweightedRMSNorm, UnweightedRMSNormWarpPerRow, "cuda.warp_per_row", DeviceKind::kCuda, 0, nullptr);

}  // namespace
}  // namespace fk::cuda
