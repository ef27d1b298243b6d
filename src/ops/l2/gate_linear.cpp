#include "ops/l2/gate_linear.h"

#include "ops/register.h"

namespace fk {

std::vector<Case<GateLinear>> GateLinear::cases() {
  return {
      {"one token", {.input_size = 64, .output_size = 8}, Workload::tokens(1)},
      {"one logit", {.input_size = 77, .output_size = 1}, Workload::tokens(9)},
      {"odd, bias", {.input_size = 51, .output_size = 13, .bias = true}, Workload::tokens(7)},
  };
}

namespace {

class ComposedGateLinear final : public GateLinear {
 public:
  ComposedGateLinear(const Init& init, Builder& builder)
      : GateLinear(init), linear_(builder.child<Linear>("", product(init))) {}

  void forward(Context& ctx, View x, View logits) override { linear_.into(ctx, x, logits); }

 private:
  Op<Linear> linear_;
};

FK_COMPOSITION(GateLinear, ComposedGateLinear);

}  // namespace
}  // namespace fk
