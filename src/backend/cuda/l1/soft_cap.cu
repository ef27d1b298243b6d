// SoftCap on CUDA.
#include "ops/l1/soft_cap.h"

#include "backend/cuda/l1/call.h"
#include "backend/cuda/l1/map_rows.cuh"
#include "ops/register.h"

namespace fk::cuda {
namespace {

template <class T, int N>
struct Capped {
  RowsOf<const T> x;
  RowsOf<T> out;
  float cap, inverse;

  __device__ void compute(int64_t row, int64_t i) const {
    Pack<T, N> pack = load_pack<T, N>(x.row(row) + i);
#pragma unroll
    for (int k = 0; k < N; ++k) pack.at[k] = from_float<T>(cap * tanhf(to_float(pack.at[k]) * inverse));
    store_pack<T, N>(out.row(row) + i, pack);
  }
};

class SoftCapRows final : public SoftCap {
 public:
  using SoftCap::SoftCap;

  std::string_view refuse(Args args) const override { return refuse_floats({&args[0], &args[1]}); }

  void forward(Context& ctx, View x, View out) override {
    with_packs(x.dtype(), rows_fit_packs(x) && rows_fit_packs(out), [&](auto type, auto n) {
      using T = typename decltype(type)::type;
      constexpr int N = decltype(n)::value;
      map_rows<N>("soft_cap",
                  Capped<T, N>{rows_of<const T>(x), rows_of<T>(out), static_cast<float>(init_.cap),
                               static_cast<float>(1 / init_.cap)},
                  out, ctx.stream);
    });
  }
};

FK_IMPLEMENTATION(SoftCap, SoftCapRows, "cuda.rows", DeviceKind::kCuda, 0, nullptr);

}  // namespace
}  // namespace fk::cuda
