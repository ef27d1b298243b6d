#include "ops/l2/qwen2_moe_sparse_moe_block.h"

#include "ops/register.h"

namespace fk {

std::vector<Case<Qwen2MoeSparseMoeBlock>> Qwen2MoeSparseMoeBlock::cases() {
  return {
      {"one token",
       {.hidden_size = 64,
        .num_experts = 12,
        .top_k = 4,
        .intermediate_size = 24,
        .renormalize = false,
        .shared_expert_intermediate_size = 80},
       Workload::tokens(1)},
      {"odd",
       {.hidden_size = 37,
        .num_experts = 7,
        .top_k = 3,
        .intermediate_size = 29,
        .shared_expert_intermediate_size = 51},
       Workload::tokens(19)},
      {"one of two ranks",
       {.hidden_size = 48,
        .num_experts = 4,
        .top_k = 2,
        .intermediate_size = 64,
        .shared_expert_intermediate_size = 32,
        .tp_size = 2,
        .reduce_results = false},
       Workload::tokens(3)},
  };
}

namespace {
using ComposedQwen2MoeSparseMoeBlock = ComposedSparseMoeBlock<Qwen2MoeSparseMoeBlock>;
FK_COMPOSITION(Qwen2MoeSparseMoeBlock, ComposedQwen2MoeSparseMoeBlock);
}  // namespace
}  // namespace fk
