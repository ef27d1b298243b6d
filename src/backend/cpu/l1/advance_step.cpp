// AdvanceStep on CPU: a few numbers per sequence, one after the other.
#include "ops/l1/advance_step.h"

#include "ops/register.h"

namespace fk {
namespace {

class AdvanceStepLoop final : public AdvanceStep {
 public:
  using AdvanceStep::AdvanceStep;

  std::string_view refuse(Args args) const override { return refuse_call(args); }

  void forward(Context&, View sampled, View block_table, View positions, View seq_lens, View steps, View input_ids,
               View slot_mapping, View cu_seqlens_k) override {
    int64_t width = block_table.size(1), block_size = init_.block_size;
    int32_t* running_sum = cu_seqlens_k.ptr<int32_t>();
    *running_sum = 0;
    for (int64_t s = 0; s < sampled.size(0); ++s) {
      int32_t& length = seq_lens.ptr<int32_t>()[s];
      int64_t& slot = slot_mapping.ptr<int64_t>()[s];
      input_ids.ptr<int64_t>()[s] = length > 0 ? sampled.ptr<int64_t>()[s] : 0;
      slot = -1;
      if (length > 0) {
        ++length;
        ++steps.ptr<int64_t>()[s];
        int64_t position = ++positions.ptr<int64_t>()[s], block = position / block_size;
        if (block < width) slot = block_table.ptr<int32_t>()[s * width + block] * block_size + position % block_size;
      }
      running_sum[s + 1] = running_sum[s] + length;
    }
  }
};

FK_IMPLEMENTATION(AdvanceStep, AdvanceStepLoop, "cpu.loop", DeviceKind::kCpu, 0, nullptr);

}  // namespace
}  // namespace fk
