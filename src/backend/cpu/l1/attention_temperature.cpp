// AttentionTemperature on CPU: one logarithm for each token, which is not worth vector instructions.
#include "ops/l1/attention_temperature.h"

#include "backend/cpu/row_kernel.h"
#include "ops/register.h"

namespace fk {
namespace {

class AttentionTemperatureTokens final : public AttentionTemperature {
 public:
  using AttentionTemperature::AttentionTemperature;

  std::string_view refuse(Args args) const override {
    if (args[0]->dtype() != DType::kI64 || args[1]->dtype() != DType::kF32) return "positions are i64 and factors f32";
    return {};
  }

  void forward(Context& ctx, View positions, View factors) override {
    for_rows(ctx.pool, positions.size(0), 64, [&](int64_t begin, int64_t end) {
      for (int64_t t = begin; t < end; ++t)
        *row_of<float>(factors, t) = static_cast<float>(factor_of(init_, *row_of<int64_t>(positions, t)));
    });
  }
};

FK_IMPLEMENTATION(AttentionTemperature, AttentionTemperatureTokens, "cpu.token_per_thread", DeviceKind::kCpu, 0,
                  nullptr);

}  // namespace
}  // namespace fk
