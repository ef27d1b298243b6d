// FusedGDNGating on CUDA.
#include "ops/l1/fused_gdn_gating.h"

#include "backend/cuda/l1/call.h"
#include "backend/cuda/l1/map_rows.cuh"
#include "ops/register.h"

namespace fk::cuda {
namespace {

template <class T>
struct GDNGates {
  RowsOf<const T> ba;
  const T *a_log, *dt_bias;
  RowsOf<float> g, beta;
  int shared;

  __device__ void compute(int64_t row, int64_t i) const {
    const int h = static_cast<int>(i);
    const T* from = ba.row(row) + h / shared * 2 * shared + h % shared;
    const float a = to_float(from[shared]) + to_float(dt_bias[h]);
    g.row(row)[h] = -expf(to_float(a_log[h])) * (fmaxf(a, 0.0f) + log1pf(expf(-fabsf(a))));
    beta.row(row)[h] = 1.0f / (1.0f + expf(-to_float(from[0])));
  }
};

class GDNGatingElements final : public FusedGDNGating {
 public:
  using FusedGDNGating::FusedGDNGating;

  std::string_view refuse(Args args) const override {
    for (size_t i : {1, 2})
      if (args[i]->dtype() != DType::kF32 || !args[i]->rows_contiguous())
        return "g and beta must be f32 with contiguous rows";
    return refuse_floats({&args[0]});
  }

  void forward(Context& ctx, View ba, View g, View beta) override {
    with_float_type(ba.dtype(), [&](auto type) {
      using T = typename decltype(type)::type;
      map_rows<1>("fused_gdn_gating",
                  GDNGates<T>{rows_of<const T>(ba), static_cast<const T*>(a_log().data()),
                              static_cast<const T*>(dt_bias().data()), rows_of<float>(g), rows_of<float>(beta),
                              static_cast<int>(init_.shared())},
                  g, ctx.stream);
    });
  }
};

FK_IMPLEMENTATION(FusedGDNGating, GDNGatingElements, "cuda.elements", DeviceKind::kCuda, 0, nullptr);

}  // namespace
}  // namespace fk::cuda
