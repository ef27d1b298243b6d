// AdvanceStep on CUDA.
#include "ops/l1/advance_step.h"

#include "backend/cuda/l1/advance_rows.h"
#include "ops/register.h"

namespace fk::cuda {
namespace {

class AdvanceStepWarp final : public AdvanceStep {
 public:
  using AdvanceStep::AdvanceStep;

  std::string_view refuse(Args args) const override { return refuse_call(args); }

  void forward(Context& ctx, View sampled, View block_table, View positions, View seq_lens, View steps, View input_ids,
               View slot_mapping, View cu_seqlens_k) override {
    advance_rows({.sampled = sampled.ptr<int64_t>(),
                  .block_table = block_table.ptr<int32_t>(),
                  .width = static_cast<int>(block_table.size(1)),
                  .block_size = static_cast<int>(init_.block_size),
                  .positions = positions.ptr<int64_t>(),
                  .seq_lens = seq_lens.ptr<int32_t>(),
                  .steps = steps.ptr<int64_t>(),
                  .input_ids = input_ids.ptr<int64_t>(),
                  .slots = slot_mapping.ptr<int64_t>(),
                  .running_sum = cu_seqlens_k.ptr<int32_t>(),
                  .sequences = static_cast<int>(sampled.size(0))},
                 ctx.stream);
  }
};

FK_IMPLEMENTATION(AdvanceStep, AdvanceStepWarp, "cuda.warp", DeviceKind::kCuda, 0, nullptr);

}  // namespace
}  // namespace fk::cuda
