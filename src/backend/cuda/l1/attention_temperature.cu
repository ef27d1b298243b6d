// AttentionTemperature on CUDA: every thread scales a pack of a row, and computes the factor itself.
#include "ops/l1/attention_temperature.h"

#include "backend/cuda/l1/call.h"
#include "backend/cuda/l1/map_rows.cuh"
#include "ops/register.h"

namespace fk::cuda {
namespace {

template <class T, int N>
struct ScaleByPosition {
  const int64_t* positions;
  int64_t stride;
  RowsOf<const T> query;
  RowsOf<T> out;
  float attn_scale;
  int64_t floor_scale;

  __device__ void compute(int64_t row, int64_t i) const {
    Pack<T, N> pack = load_pack<T, N>(query.row(row) + i);
    const int64_t steps = (positions[row * stride] + 1) / floor_scale;
    const float factor = 1 + attn_scale * log1pf(static_cast<float>(steps));
#pragma unroll
    for (int k = 0; k < N; ++k) pack.at[k] = from_float<T>(to_float(pack.at[k]) * factor);
    store_pack<T, N>(out.row(row) + i, pack);
  }
};

class AttentionTemperaturePacks final : public AttentionTemperature {
 public:
  using AttentionTemperature::AttentionTemperature;

  std::string_view refuse(Args args) const override {
    if (args[0]->dtype() != DType::kI64) return "positions must be i64";
    return refuse_floats({&args[1], &args[2]});
  }

  void forward(Context& ctx, View positions, View query, View out) override {
    with_packs(query.dtype(), rows_fit_packs(query) && rows_fit_packs(out), [&](auto type, auto n) {
      using T = typename decltype(type)::type;
      constexpr int N = decltype(n)::value;
      map_rows<N>("attention_temperature",
                  ScaleByPosition<T, N>{positions.ptr<int64_t>(), positions.stride(0), rows_of<const T>(query),
                                        rows_of<T>(out), static_cast<float>(init_.attn_scale), init_.floor_scale},
                  out, ctx.stream);
    });
  }
};

FK_IMPLEMENTATION(AttentionTemperature, AttentionTemperaturePacks, "cuda.rows", DeviceKind::kCuda, 0, nullptr);

}  // namespace
}  // namespace fk::cuda
