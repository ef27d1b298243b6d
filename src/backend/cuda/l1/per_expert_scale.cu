// PerExpertScale on CUDA: a thread for each pair of token and expert.
#include "ops/l1/per_expert_scale.h"

#include "backend/cuda/l1/map_rows.cuh"
#include "ops/register.h"

namespace fk::cuda {
namespace {

template <class T>
struct ScaledWeights {
  RowsOf<const float> weights;
  RowsOf<const int32_t> ids;
  const T* scales;
  int num_experts;
  RowsOf<float> out;

  __device__ void compute(int64_t row, int64_t i) const {
    const int expert = ids.row(row)[i];
    // Ids beyond the experts would be a mistake of the router; nothing is read for them.
    const float scale = expert >= 0 && expert < num_experts ? to_float(scales[expert]) : 0.0f;
    out.row(row)[i] = weights.row(row)[i] * scale;
  }
};

class PerExpertScalePairs final : public PerExpertScale {
 public:
  using PerExpertScale::PerExpertScale;

  std::string_view refuse(Args args) const override {
    if (args[0]->dtype() != DType::kF32 || args[1]->dtype() != DType::kI32 || args[2]->dtype() != DType::kF32)
      return "weights must be f32 and ids i32";
    for (const OptView& rows : args)
      if (!rows->rows_contiguous()) return "rows are not contiguous";
    if (init_.dtype != DType::kBF16 && init_.dtype != DType::kF16 && init_.dtype != DType::kF32)
      return "the experts' numbers must be bf16, f16 or f32";
    return {};
  }

  void forward(Context& ctx, View topk_weights, View topk_ids, View out) override {
    with_float_type(weight().dtype(), [&](auto type) {
      using T = typename decltype(type)::type;
      map_rows<1>("per_expert_scale",
                  ScaledWeights<T>{rows_of<const float>(topk_weights), rows_of<const int32_t>(topk_ids),
                                   static_cast<const T*>(weight().data()), static_cast<int>(init_.num_experts),
                                   rows_of<float>(out)},
                  out, ctx.stream);
    });
  }
};

FK_IMPLEMENTATION(PerExpertScale, PerExpertScalePairs, "cuda.thread_per_pair", DeviceKind::kCuda, 0, nullptr);

}  // namespace
}  // namespace fk::cuda
