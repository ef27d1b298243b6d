#include "ops/l2/qwen3_moe_sparse_moe_block.h"

#include "ops/register.h"

namespace fk {

std::vector<Case<Qwen3MoeSparseMoeBlock>> Qwen3MoeSparseMoeBlock::cases() {
  return {
      {"one token", {.hidden_size = 64, .num_experts = 32, .top_k = 8, .intermediate_size = 24}, Workload::tokens(1)},
      {"odd",
       {.hidden_size = 37, .num_experts = 11, .top_k = 3, .intermediate_size = 29, .renormalize = false},
       Workload::tokens(19)},
      {"empty experts",
       {.hidden_size = 40, .num_experts = 48, .top_k = 4, .intermediate_size = 16},
       Workload::tokens(6)},
  };
}

namespace {
using ComposedQwen3MoeSparseMoeBlock = ComposedSparseMoeBlock<Qwen3MoeSparseMoeBlock>;
FK_COMPOSITION(Qwen3MoeSparseMoeBlock, ComposedQwen3MoeSparseMoeBlock);
}  // namespace
}  // namespace fk
