// ActQuantInt8 on CUDA: a block for each row, which is read twice, the second time from a cache.
#include "ops/l1/act_quant_int8.h"

#include "backend/cuda/device/launch.cuh"
#include "backend/cuda/device/reduce.cuh"
#include "backend/cuda/l1/call.h"
#include "backend/cuda/l1/map_rows.cuh"
#include "ops/register.h"

namespace fk::cuda {
namespace {

constexpr int kActQuantInt8Threads = 256;

// Of positive numbers, whose bits have the same order; a NaN is the largest of them.
struct LargestBits {
  static constexpr float kNeutral = 0;
  __device__ static float of(float a, float b) { return __int_as_float(max(__float_as_int(a), __float_as_int(b))); }
};

template <class T, int N>
__global__ void __launch_bounds__(kActQuantInt8Threads)
    act_quant_rows(const RowsOf<const T> x, const RowsOf<T> out, int64_t width, float least) {
  __shared__ float scratch[33];
  let_next_start();
  wait_for_previous();
  const T* from = x.row(blockIdx.x);
  T* to = out.row(blockIdx.x);
  float largest = least;
  for (int64_t i = threadIdx.x * N; i < width; i += kActQuantInt8Threads * N) {
    const Pack<T, N> pack = load_pack<T, N>(from + i);
#pragma unroll
    for (int k = 0; k < N; ++k) largest = LargestBits::of(largest, fabsf(to_float(pack.at[k])));
  }
  largest = reduce_block<LargestBits>(largest, scratch);
  const float steps = 127.0f / largest, step = largest / 127.0f;
  for (int64_t i = threadIdx.x * N; i < width; i += kActQuantInt8Threads * N) {
    Pack<T, N> pack = load_pack<T, N>(from + i);
#pragma unroll
    for (int k = 0; k < N; ++k) pack.at[k] = from_float<T>(rintf(to_float(pack.at[k]) * steps) * step);
    store_pack<T, N>(to + i, pack);
  }
}

class ActQuantInt8BlockPerRow final : public ActQuantInt8 {
 public:
  using ActQuantInt8::ActQuantInt8;

  std::string_view refuse(Args args) const override { return refuse_floats({&args[0], &args[1]}); }

  void forward(Context& ctx, View x, View out) override {
    if (out.numel() == 0) return;
    with_packs(x.dtype(), rows_fit_packs(x) && rows_fit_packs(out), [&](auto type, auto n) {
      using T = typename decltype(type)::type;
      constexpr int N = decltype(n)::value;
      launch("act_quant_int8", act_quant_rows<T, N>, static_cast<unsigned>(x.size(0)), kActQuantInt8Threads, 0,
             ctx.stream, rows_of<const T>(x), rows_of<T>(out), x.size(1), static_cast<float>(init_.least_magnitude));
    });
  }
};

FK_IMPLEMENTATION(ActQuantInt8, ActQuantInt8BlockPerRow, "cuda.block_per_row", DeviceKind::kCuda, 0, nullptr);

}  // namespace
}  // namespace fk::cuda
