#include "ops/l2/llama_mlp.h"

#include "ops/l1/silu_and_mul.h"
#include "ops/register.h"

namespace fk {

std::vector<Case<LlamaMLP>> LlamaMLP::cases() {
  return {
      {"one token", {.hidden_size = 64, .intermediate_size = 176}, Workload::tokens(1)},
      {"odd, bias", {.hidden_size = 33, .intermediate_size = 77, .bias = true}, Workload::tokens(19)},
      {"one of two ranks",
       {.hidden_size = 48, .intermediate_size = 96, .tp_size = 2, .reduce_results = false},
       Workload::tokens(3)},
      {"quantised",
       {.hidden_size = 64, .intermediate_size = 96, .weight_format = "q8_0;down_proj=q4_0"},
       Workload::tokens(2)},
  };
}

namespace {

class ComposedLlamaMLP final : public ComposedMlpBlock<LlamaMLP, SiluAndMul> {
 public:
  ComposedLlamaMLP(const Init& init, Builder& builder) : ComposedMlpBlock(init, builder, {}) {}
};

FK_COMPOSITION(LlamaMLP, ComposedLlamaMLP);

}  // namespace
}  // namespace fk
