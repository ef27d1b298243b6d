// AttentionTemperature on CPU: one logarithm for each token, which is not worth vector instructions, and a product.
#include "ops/l1/attention_temperature.h"

#include "backend/cpu/l1/multiply_row.h"
#include "backend/cpu/row_kernel.h"
#include "ops/register.h"

namespace fk {
namespace {

class AttentionTemperatureTokens final : public AttentionTemperature {
 public:
  using AttentionTemperature::AttentionTemperature;

  std::string_view refuse(Args args) const override {
    if (args[0]->dtype() != DType::kI64) return "positions must be i64";
    return refuse_floats({&args[1], &args[2]});
  }

  void forward(Context& ctx, View positions, View query, View out) override {
    with_float(query.dtype(), [&]<class T>(T) {
      for_row_pieces(ctx.pool, out.size(0), out.size(1), [&](int64_t t, int64_t, int64_t begin, int64_t end) {
        auto factor = static_cast<float>(factor_of(init_, *row_of<int64_t>(positions, t)));
        multiply_row(row_of<T>(query, t) + begin, factor, row_of<T>(out, t) + begin, end - begin);
      });
    });
  }
};

FK_IMPLEMENTATION(AttentionTemperature, AttentionTemperatureTokens, "cpu.token_per_thread", DeviceKind::kCpu, 0,
                  nullptr);

}  // namespace
}  // namespace fk
