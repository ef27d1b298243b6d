#include "ops/l2/deepseek_v2_moe.h"

#include "ops/register.h"

namespace fk {

std::vector<Case<DeepseekV2MoE>> DeepseekV2MoE::cases() {
  Init c{{.hidden_size = 64,
          .num_experts = 16,
          .top_k = 4,
          .intermediate_size = 24,
          .shared_expert_intermediate_size = 24},
         4,
         2,
         2.5};
  Init odd{{.hidden_size = 37,
            .num_experts = 12,
            .top_k = 3,
            .intermediate_size = 29,
            .shared_expert_intermediate_size = 58},
           3,
           1,
           1.7};
  return {
      {"one token", c, Workload::tokens(1)},
      {"odd, two shared experts", odd, Workload::tokens(19)},
  };
}

namespace {
using ComposedDeepseekV2MoE = ComposedGroupedMoeBlock<DeepseekV2MoE>;
FK_COMPOSITION(DeepseekV2MoE, ComposedDeepseekV2MoE);
}  // namespace
}  // namespace fk
