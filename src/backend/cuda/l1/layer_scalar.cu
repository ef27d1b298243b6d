// LayerScalar on CUDA.
#include "ops/l1/layer_scalar.h"

#include "backend/cuda/l1/call.h"
#include "backend/cuda/l1/map_rows.cuh"
#include "ops/register.h"

namespace fk::cuda {
namespace {

template <class T, int N>
struct ScaledSum {
  RowsOf<const T> x;
  RowsOf<const T> residual;
  const T* weight;
  RowsOf<T> out;

  __device__ void compute(int64_t row, int64_t i) const {
    const float factor = to_float(*weight);
    Pack<T, N> pack = load_pack<T, N>(x.row(row) + i);
    const Pack<T, N> added = load_pack<T, N>(residual.row(row) + i);
#pragma unroll
    for (int k = 0; k < N; ++k) pack.at[k] = from_float<T>((to_float(pack.at[k]) + to_float(added.at[k])) * factor);
    store_pack<T, N>(out.row(row) + i, pack);
  }
};

class LayerScalarRows final : public LayerScalar {
 public:
  using LayerScalar::LayerScalar;

  std::string_view refuse(Args args) const override {
    if (args[0]->dtype() != init_.dtype) return "its weight has another dtype than the rows";
    return refuse_floats({&args[0], &args[1], &args[2]});
  }

  void forward(Context& ctx, View x, View residual, View out) override {
    with_packs(x.dtype(), rows_fit_packs(x) && rows_fit_packs(residual) && rows_fit_packs(out), [&](auto type, auto n) {
      using T = typename decltype(type)::type;
      constexpr int N = decltype(n)::value;
      map_rows<N>("layer_scalar",
                  ScaledSum<T, N>{rows_of<const T>(x), rows_of<const T>(residual),
                                  static_cast<const T*>(weight().data()), rows_of<T>(out)},
                  out, ctx.stream);
    });
  }
};

FK_IMPLEMENTATION(LayerScalar, LayerScalarRows, "cuda.rows", DeviceKind::kCuda, 0, nullptr);

}  // namespace
}  // namespace fk::cuda
