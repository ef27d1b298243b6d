// PerExpertScale on CPU: a few products for each token, which are not worth vector instructions.
#include "ops/l1/per_expert_scale.h"

#include "backend/cpu/row_kernel.h"
#include "ops/register.h"

namespace fk {
namespace {

class PerExpertScaleTokens final : public PerExpertScale {
 public:
  using PerExpertScale::PerExpertScale;

  std::string_view refuse(Args args) const override {
    if (args[0]->dtype() != DType::kF32 || args[1]->dtype() != DType::kI32 || args[2]->dtype() != DType::kF32)
      return "weights must be f32 and ids i32";
    for (const OptView& rows : args)
      if (!rows->rows_contiguous()) return "rows are not contiguous";
    return {};
  }

  void forward(Context& ctx, View topk_weights, View topk_ids, View out) override {
    const auto* scales = static_cast<const std::byte*>(weight().data());
    const DType dtype = weight().dtype();
    const size_t size = dtype_size(dtype);
    for_rows(ctx.pool, topk_ids.size(0), init_.top_k, [&](int64_t begin, int64_t end) {
      for (int64_t t = begin; t < end; ++t) {
        const auto* ids = row_of<int32_t>(topk_ids, t);
        const auto* weights = row_of<float>(topk_weights, t);
        auto* scaled = row_of<float>(out, t);
        for (int64_t j = 0; j < init_.top_k; ++j)
          scaled[j] = weights[j] * static_cast<float>(load_element(scales + static_cast<size_t>(ids[j]) * size, dtype));
      }
    });
  }
};

FK_IMPLEMENTATION(PerExpertScale, PerExpertScaleTokens, "cpu.token_per_thread", DeviceKind::kCpu, 0, nullptr);

}  // namespace
}  // namespace fk
