#include "ops/l2/grouped_moe_block.h"

namespace fk {

std::vector<ParamSpec> GroupedMoeBlock::params(const Init& init) {
  DType dtype = init.dtype == DType::kF64 ? DType::kF64 : DType::kF32;
  return {{"gate.e_score_correction_bias", {{init.num_experts}, dtype}}};
}

GroupedTopk::Init GroupedMoeBlock::choice(const Init& init) {
  return {.num_experts = init.num_experts,
          .top_k = init.top_k,
          .renormalize = init.renormalize,
          .num_expert_group = init.num_expert_group,
          .topk_group = init.topk_group,
          .scoring_func = "sigmoid",
          .routed_scaling_factor = init.routed_scaling_factor};
}

Inputs GroupedMoeBlock::inputs(const Init& init, const Workload& w) {
  GroupedTopk::check(choice(init));
  return SparseMoeBlock::inputs(init, w);
}

Cost GroupedMoeBlock::cost(const Init& init, const Workload& w) {
  Cost cost = SparseMoeBlock::cost(init, w);
  cost.read_bytes += 4 * static_cast<double>(init.num_experts);
  if (init.shared_expert_intermediate_size > 0) {  // its gate, which is not here, is a row of D
    auto T = static_cast<double>(w.num_tokens()), D = static_cast<double>(init.hidden_size);
    cost.read_bytes -= D * static_cast<double>(dtype_size(w.dtype));
    cost.matrix_flops -= 2 * T * D;
    cost.vector_flops -= T * D;
  }
  return cost;
}

}  // namespace fk
