#include "ops/l2/jamba_moe.h"

#include "ops/register.h"

namespace fk {

std::vector<Case<JambaMoE>> JambaMoE::cases() {
  return {{"one token",
           {.hidden_size = 64, .num_experts = 8, .top_k = 2, .intermediate_size = 48, .renormalize = false},
           Workload::tokens(1)},
          {"odd",
           {.hidden_size = 37, .num_experts = 5, .top_k = 2, .intermediate_size = 29, .renormalize = false},
           Workload::tokens(19)}};
}

namespace {
using ComposedJambaMoE = ComposedSparseMoeBlock<JambaMoE>;
FK_COMPOSITION(JambaMoE, ComposedJambaMoE);
}  // namespace
}  // namespace fk
