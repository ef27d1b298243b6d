#include "ops/l2/gemma_mlp.h"

#include "ops/l1/gelu_and_mul.h"
#include "ops/register.h"

namespace fk {

std::vector<Case<GemmaMLP>> GemmaMLP::cases() {
  return {
      {"one token", {.hidden_size = 64, .intermediate_size = 176}, Workload::tokens(1)},
      {"odd, bias", {.hidden_size = 33, .intermediate_size = 77, .bias = true}, Workload::tokens(19)},
      {"one of two ranks",
       {.hidden_size = 48, .intermediate_size = 96, .tp_size = 2, .reduce_results = false},
       Workload::tokens(3)},
      {"quantised", {.hidden_size = 64, .intermediate_size = 96, .weight_format = "int4_packed"}, Workload::tokens(2)},
  };
}

namespace {

class ComposedGemmaMLP final : public ComposedMlpBlock<GemmaMLP, GeluAndMul> {
 public:
  ComposedGemmaMLP(const Init& init, Builder& builder) : ComposedMlpBlock(init, builder, {.approximate = "tanh"}) {}
};

FK_COMPOSITION(GemmaMLP, ComposedGemmaMLP);

}  // namespace
}  // namespace fk
