// ScaleAdd on CUDA.
#include "ops/l1/scale_add.h"

#include "backend/cuda/device/launch.cuh"
#include "backend/cuda/l1/call.h"
#include "backend/cuda/l1/packs.cuh"
#include "ops/register.h"

namespace fk::cuda {
namespace {

constexpr int kScaleAddThreads = 256;

// A thread for each pack of the result.
template <class T, int N>
__global__ void __launch_bounds__(kScaleAddThreads)
    scale_add_rows(const T* x, int64_t x_stride, const T* residual, int64_t residual_stride, T* out, int64_t out_stride,
                   int64_t width, unsigned pieces, float scale) {
  let_next_start();
  wait_for_previous();
  const int64_t row = blockIdx.x / pieces;
  const int64_t i = (blockIdx.x % pieces * static_cast<int64_t>(kScaleAddThreads) + threadIdx.x) * N;
  if (i >= width) return;
  Pack<T, N> pack = load_pack<T, N>(x + row * x_stride + i), added{};
  if (residual != nullptr) added = load_pack<T, N>(residual + row * residual_stride + i);
#pragma unroll
  for (int k = 0; k < N; ++k) {
    const float sum = residual != nullptr ? to_float(added.at[k]) : 0.0f;
    pack.at[k] = from_float<T>(to_float(pack.at[k]) * scale + sum);
  }
  store_pack<T, N>(out + row * out_stride + i, pack);
}

class ScaleAddRows final : public ScaleAdd {
 public:
  using ScaleAdd::ScaleAdd;

  std::string_view refuse(Args args) const override { return refuse_floats({&args[0], &args[1], &args[2]}); }

  void forward(Context& ctx, View x, OptView residual, View out) override {
    if (out.numel() == 0) return;
    with_packs(x.dtype(), rows_fit_packs(x) && rows_fit_packs(residual) && rows_fit_packs(out), [&](auto type, auto n) {
      using T = typename decltype(type)::type;
      constexpr int N = decltype(n)::value;
      unsigned pieces = blocks_for(out.size(1), kScaleAddThreads * N);
      launch("scale_add", scale_add_rows<T, N>, static_cast<unsigned>(out.size(0)) * pieces, kScaleAddThreads, 0,
             ctx.stream, static_cast<const T*>(x.data()), x.stride(0),
             residual ? static_cast<const T*>(residual->data()) : static_cast<const T*>(nullptr),
             residual ? residual->stride(0) : int64_t{0}, static_cast<T*>(out.data()), out.stride(0), out.size(1),
             pieces, static_cast<float>(init_.scale));
    });
  }
};

FK_IMPLEMENTATION(ScaleAdd, ScaleAddRows, "cuda.rows", DeviceKind::kCuda, 0, nullptr);

}  // namespace
}  // namespace fk::cuda
