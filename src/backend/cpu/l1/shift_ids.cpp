// ShiftIds on CPU: one subtraction for each token.
#include "ops/l1/shift_ids.h"

#include "ops/register.h"

namespace fk {
namespace {

class ShiftIdsLoop final : public ShiftIds {
 public:
  using ShiftIds::ShiftIds;

  std::string_view refuse(Args args) const override { return refuse_call(args); }

  void forward(Context&, View input_ids, View out) override {
    const auto* ids = input_ids.ptr<int64_t>();
    auto* shifted = out.ptr<int64_t>();
    for (int64_t t = 0; t < input_ids.size(0); ++t)
      shifted[t * out.stride(0)] = ids[t * input_ids.stride(0)] - init_.first;
  }
};

FK_IMPLEMENTATION(ShiftIds, ShiftIdsLoop, "cpu.loop", DeviceKind::kCpu, 0, nullptr);

}  // namespace
}  // namespace fk
