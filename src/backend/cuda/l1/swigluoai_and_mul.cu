// SwigluOAIAndMul on CUDA.
#include "ops/l1/swigluoai_and_mul.h"

#include "backend/cuda/l1/call.h"
#include "backend/cuda/l1/map_rows.cuh"
#include "backend/cuda/l1/swigluoai.cuh"
#include "ops/register.h"

namespace fk::cuda {
namespace {

template <class T, int N>
struct Swiglu {
  RowsOf<const T> x;
  RowsOf<T> out;
  SwigluLimits limits;

  __device__ void compute(int64_t row, int64_t i) const {
    T both[2 * N];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const Pack<T, N> pack = load_pack<T, N>(x.row(row) + 2 * i + half * N);
#pragma unroll
      for (int k = 0; k < N; ++k) both[half * N + k] = pack.at[k];
    }
    Pack<T, N> result;
#pragma unroll
    for (int k = 0; k < N; ++k)
      result.at[k] = from_float<T>(swigluoai<T>(to_float(both[2 * k]), to_float(both[2 * k + 1]), limits));
    store_pack<T, N>(out.row(row) + i, result);
  }
};

class SwigluOAIAndMulPacks final : public SwigluOAIAndMul {
 public:
  using SwigluOAIAndMul::SwigluOAIAndMul;

  std::string_view refuse(Args args) const override { return refuse_floats({&args[0], &args[1]}); }

  void forward(Context& ctx, View x, View out) override {
    with_packs(x.dtype(), rows_fit_packs(x) && rows_fit_packs(out), [&](auto type, auto n) {
      using T = typename decltype(type)::type;
      constexpr int N = decltype(n)::value;
      const SwigluLimits limits{static_cast<float>(init_.alpha), static_cast<float>(init_.limit)};
      map_rows<N>("swigluoai_and_mul", Swiglu<T, N>{rows_of<const T>(x), rows_of<T>(out), limits}, out, ctx.stream);
    });
  }
};

FK_IMPLEMENTATION(SwigluOAIAndMul, SwigluOAIAndMulPacks, "cuda.fused", DeviceKind::kCuda, 0, nullptr);

}  // namespace
}  // namespace fk::cuda
