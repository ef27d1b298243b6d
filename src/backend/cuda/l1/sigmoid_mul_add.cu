// SigmoidMulAdd on CUDA.
#include "ops/l1/sigmoid_mul_add.h"

#include "backend/cuda/l1/call.h"
#include "backend/cuda/l1/map_rows.cuh"
#include "ops/register.h"

namespace fk::cuda {
namespace {

template <class T, int N>
struct MulAdd {
  RowsOf<const T> x;
  RowsOf<const float> gate;
  RowsOf<const T> residual;
  RowsOf<T> out;

  __device__ void compute(int64_t row, int64_t i) const {
    Pack<T, N> pack = load_pack<T, N>(x.row(row) + i);
    const Pack<T, N> added = load_pack<T, N>(residual.row(row) + i);
    const float factor = 1.0f / (1.0f + expf(-*gate.row(row)));
#pragma unroll
    for (int k = 0; k < N; ++k) pack.at[k] = from_float<T>(fmaf(to_float(pack.at[k]), factor, to_float(added.at[k])));
    store_pack<T, N>(out.row(row) + i, pack);
  }
};

class SigmoidMulAddPacks final : public SigmoidMulAdd {
 public:
  using SigmoidMulAdd::SigmoidMulAdd;

  std::string_view refuse(Args args) const override {
    if (args[1]->dtype() != DType::kF32) return "gate must be f32";
    return refuse_floats({&args[0], &args[2], &args[3]});
  }

  void forward(Context& ctx, View x, View gate, View residual, View out) override {
    with_packs(x.dtype(), rows_fit_packs(x) && rows_fit_packs(residual) && rows_fit_packs(out), [&](auto type, auto n) {
      using T = typename decltype(type)::type;
      constexpr int N = decltype(n)::value;
      map_rows<N>(
          "sigmoid_mul_add",
          MulAdd<T, N>{rows_of<const T>(x), rows_of<const float>(gate), rows_of<const T>(residual), rows_of<T>(out)},
          out, ctx.stream);
    });
  }
};

FK_IMPLEMENTATION(SigmoidMulAdd, SigmoidMulAddPacks, "cuda.rows", DeviceKind::kCuda, 0, nullptr);

}  // namespace
}  // namespace fk::cuda
