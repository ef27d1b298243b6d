// ScaleRows on CUDA.
#include "ops/l1/scale_rows.h"

#include "backend/cuda/l1/call.h"
#include "backend/cuda/l1/map_rows.cuh"
#include "ops/register.h"

namespace fk::cuda {
namespace {

template <class T, int N>
struct Scale {
  RowsOf<const T> x;
  RowsOf<const float> scale;
  RowsOf<T> out;

  __device__ void compute(int64_t row, int64_t i) const {
    Pack<T, N> pack = load_pack<T, N>(x.row(row) + i);
    const float factor = *scale.row(row);
#pragma unroll
    for (int k = 0; k < N; ++k) pack.at[k] = from_float<T>(to_float(pack.at[k]) * factor);
    store_pack<T, N>(out.row(row) + i, pack);
  }
};

class ScaleRowsPacks final : public ScaleRows {
 public:
  using ScaleRows::ScaleRows;

  std::string_view refuse(Args args) const override {
    if (args[1]->dtype() != DType::kF32) return "scale must be f32";
    return refuse_floats({&args[0], &args[2]});
  }

  void forward(Context& ctx, View x, View scale, View out) override {
    with_packs(x.dtype(), rows_fit_packs(x) && rows_fit_packs(out), [&](auto type, auto n) {
      using T = typename decltype(type)::type;
      constexpr int N = decltype(n)::value;
      map_rows<N>("scale_rows", Scale<T, N>{rows_of<const T>(x), rows_of<const float>(scale), rows_of<T>(out)}, out,
                  ctx.stream);
    });
  }
};

FK_IMPLEMENTATION(ScaleRows, ScaleRowsPacks, "cuda.rows", DeviceKind::kCuda, 0, nullptr);

}  // namespace
}  // namespace fk::cuda
