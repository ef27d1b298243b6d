#include "ops/l2/mixtral_moe.h"

#include "ops/register.h"

namespace fk {

std::vector<Case<MixtralMoE>> MixtralMoE::cases() {
  return {
      {"one token", {.hidden_size = 64, .num_experts = 8, .top_k = 2, .intermediate_size = 48}, Workload::tokens(1)},
      {"odd", {.hidden_size = 37, .num_experts = 5, .top_k = 2, .intermediate_size = 29}, Workload::tokens(19)},
      {"one of two ranks",
       {.hidden_size = 48,
        .num_experts = 4,
        .top_k = 2,
        .intermediate_size = 64,
        .tp_size = 2,
        .reduce_results = false},
       Workload::tokens(3)},
  };
}

namespace {
using ComposedMixtralMoE = ComposedSparseMoeBlock<MixtralMoE>;
FK_COMPOSITION(MixtralMoE, ComposedMixtralMoE);
}  // namespace
}  // namespace fk
