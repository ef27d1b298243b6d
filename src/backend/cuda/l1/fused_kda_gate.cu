// FusedKDAGate on CUDA.
#include "ops/l1/fused_kda_gate.h"

#include "backend/cuda/l1/call.h"
#include "backend/cuda/l1/map_rows.cuh"
#include "ops/register.h"

namespace fk::cuda {
namespace {

template <class T>
struct KDAGates {
  RowsOf<const T> f, b;
  const float *a_log, *dt_bias;
  RowsOf<float> g, beta;
  int head_dim;

  __device__ void compute(int64_t row, int64_t i) const {
    const int h = static_cast<int>(i) / head_dim;
    const float x = to_float(f.row(row)[i]) + dt_bias[i];
    g.row(row)[i] = -expf(a_log[h]) * (fmaxf(x, 0.0f) + log1pf(expf(-fabsf(x))));
    if (static_cast<int>(i) == h * head_dim) beta.row(row)[h] = 1.0f / (1.0f + expf(-to_float(b.row(row)[h])));
  }
};

class KDAGateElements final : public FusedKDAGate {
 public:
  using FusedKDAGate::FusedKDAGate;

  std::string_view refuse(Args args) const override {
    for (size_t i : {2, 3})
      if (args[i]->dtype() != DType::kF32 || !args[i]->rows_contiguous())
        return "g and beta must be f32 with contiguous rows";
    return refuse_floats({&args[0], &args[1]});
  }

  void forward(Context& ctx, View f, View b, View g, View beta) override {
    with_float_type(f.dtype(), [&](auto type) {
      using T = typename decltype(type)::type;
      map_rows<1>("fused_kda_gate",
                  KDAGates<T>{rows_of<const T>(f), rows_of<const T>(b), static_cast<const float*>(a_log().data()),
                              static_cast<const float*>(dt_bias().data()), rows_of<float>(g), rows_of<float>(beta),
                              static_cast<int>(init_.head_dim)},
                  g, ctx.stream);
    });
  }
};

FK_IMPLEMENTATION(FusedKDAGate, KDAGateElements, "cuda.elements", DeviceKind::kCuda, 0, nullptr);

}  // namespace
}  // namespace fk::cuda
