#include "ops/l2/glm4_moe.h"

#include "ops/register.h"

namespace fk {

std::vector<Case<Glm4MoE>> Glm4MoE::cases() {
  Init c{{.hidden_size = 64,
          .num_experts = 16,
          .top_k = 4,
          .intermediate_size = 24,
          .shared_expert_intermediate_size = 48},
         1,
         1,
         2.5};
  Init groups{{.hidden_size = 37,
               .num_experts = 12,
               .top_k = 3,
               .intermediate_size = 29,
               .renormalize = false,
               .shared_expert_intermediate_size = 31},
              4,
              2,
              1};
  Init rank{
      {.hidden_size = 48, .num_experts = 4, .top_k = 2, .intermediate_size = 64, .tp_size = 2, .reduce_results = false},
      2,
      2,
      1.5};
  return {
      {"one token", c, Workload::tokens(1)},
      {"odd, groups", groups, Workload::tokens(19)},
      {"one of two ranks, no shared expert", rank, Workload::tokens(3)},
  };
}

namespace {
using ComposedGlm4MoE = ComposedGroupedMoeBlock<Glm4MoE>;
FK_COMPOSITION(Glm4MoE, ComposedGlm4MoE);
}  // namespace
}  // namespace fk
