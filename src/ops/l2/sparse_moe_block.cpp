#include "ops/l2/sparse_moe_block.h"

#include "ops/l1/expert_choice.h"

namespace fk {

GateLinear::Init SparseMoeBlock::router(const Init& init) {
  return {.input_size = init.hidden_size, .output_size = init.num_experts, .dtype = init.dtype};
}

FusedExperts::Init SparseMoeBlock::routed(const Init& init) {
  return {.num_experts = init.num_experts,
          .top_k = init.top_k,
          .hidden_size = init.hidden_size,
          .intermediate_size = init.intermediate_size,
          .tp_size = init.tp_size,
          .tp_rank = init.tp_rank,
          .dtype = init.dtype};
}

MlpBlockInit SparseMoeBlock::shared(const Init& init) {
  return {.hidden_size = init.hidden_size,
          .intermediate_size = init.shared_expert_intermediate_size,
          .tp_size = init.tp_size,
          .tp_rank = init.tp_rank,
          .reduce_results = false,  // added up with the sum of the experts
          .dtype = init.dtype};
}

Inputs SparseMoeBlock::inputs(const Init& init, const Workload& w) {
  check_top_k(init.num_experts, init.top_k);
  return {InputSpec{{{w.num_tokens(), init.hidden_size}, w.dtype}, Generator::normal()}};
}

Cost SparseMoeBlock::cost(const Init& init, const Workload& w) {
  return cost_with(init, FusedExperts::cost(routed(init), w), w);
}

Cost SparseMoeBlock::cost_with(const Init& init, Cost cost, const Workload& w) {
  auto T = static_cast<double>(w.num_tokens()), D = static_cast<double>(init.hidden_size),
       E = static_cast<double>(init.num_experts), pairs = T * static_cast<double>(init.top_k);
  double size = static_cast<double>(dtype_size(w.dtype)), stream = size * T * D;
  cost.read_bytes += size * E * D - 8 * pairs;  // weights and ids need not go through memory
  cost.matrix_flops += 2 * T * E * D;
  if (init.shared_expert_intermediate_size > 0) {
    Cost more = MlpBlock::cost(shared(init), w);
    cost.read_bytes += more.read_bytes - stream + size * D;
    cost.matrix_flops += more.matrix_flops + 2 * T * D;
    cost.vector_flops += more.vector_flops + 2 * T * D;
  }
  return cost;
}

Tolerance SparseMoeBlock::tolerance(const Init& init, DType dtype) {
  return composed_tolerance(
      dtype, static_cast<double>(std::max(init.intermediate_size, init.shared_expert_intermediate_size)));
}

}  // namespace fk
