#include "ops/l2/linear_attention_block.h"

#include "ops/l2/tensor_parallel.h"

namespace fk {

LinearRecurrenceInit LinearAttentionBlock::recurrence(const Init& init) {
  const int64_t heads = rank_share(init.num_heads, init.tp_size, "heads");
  const int64_t kv_heads = rank_share(init.num_kv_heads, init.tp_size, "heads of keys and values");
  return {.num_heads = heads,
          .num_k_heads = kv_heads,
          .num_v_heads = kv_heads,
          .head_k_dim = init.head_k_dim,
          .head_v_dim = init.head_v_dim,
          .first_head = init.tp_rank * heads};
}

std::vector<StateSpec> LinearAttentionBlock::states(const Init& init) {
  return {linear_recurrence::state("recurrent_state", recurrence(init))};
}

OutputSpecs LinearAttentionBlock::outputs(const Init&, Args given) { return {given[1]->spec()}; }

Inputs LinearAttentionBlock::inputs(const Init& init, const Workload& w) {
  return {InputSpec{{{w.num_tokens()}, DType::kI64}, Generator::metadata(Generator::Kind::kPositions)},
          InputSpec{{{w.num_tokens(), init.hidden_size}, w.dtype}, Generator::normal()}};
}

Cost LinearAttentionBlock::cost_with(const Init& init, Cost cost, bool low_rank, const Workload& w) {
  const LinearRecurrenceInit r = recurrence(init);
  const auto T = static_cast<double>(w.num_tokens()), D = static_cast<double>(init.hidden_size);
  const auto size = static_cast<double>(dtype_size(w.dtype));
  const auto q = static_cast<double>(r.num_heads * r.head_k_dim), k = static_cast<double>(r.k_heads() * r.head_k_dim),
             v = static_cast<double>(r.v_heads() * r.head_v_dim), o = static_cast<double>(r.num_heads * r.head_v_dim);
  double weights = D * (q + k + v + (init.use_output_gate ? 2 : 1) * o) + static_cast<double>(init.head_v_dim);
  if (low_rank) weights += static_cast<double>(init.gate_low_rank_dim) * (D + k) + k;
  // What the recurrence reads and writes apart from states are intermediates, which need not go through memory.
  double running = 0;
  for (const Sequence& s : w.sequences) running += s.query_len > 0 ? 1 : 0;
  const double states = 4 * running * static_cast<double>(r.state_heads() * r.head_k_dim * r.head_v_dim);
  cost.read_bytes = states + size * (weights + T * D);
  cost.written_bytes = states + size * T * D;
  cost.matrix_flops += 2 * T * weights;
  return cost;
}

Tolerance LinearAttentionBlock::tolerance(const Init& init, DType dtype) {
  // The norm of heads divides by their size, which makes the roundings before it as large as those after it.
  Tolerance t = composed_tolerance(dtype, static_cast<double>(init.hidden_size));
  return {t.relative, 2 * t.of_scale};
}

}  // namespace fk
