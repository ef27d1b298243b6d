// The common part of the blocks of gated linear attention and retention: projections, recurrence, norm of heads, gate,
// output projection. Names of parts as in flash-linear-attention.
#pragma once

#include "ops/contract.h"
#include "ops/l1/linear_recurrence.h"

namespace fk {

struct LinearAttentionInit {
  int64_t hidden_size = 0;
  int64_t num_heads = 0;  // of all ranks together, as below
  int64_t num_kv_heads = 0;
  int64_t head_k_dim = 0;
  int64_t head_v_dim = 0;
  bool use_output_gate = true;
  bool fuse_norm = true;           // changes only the name of the norm of heads in checkpoints
  double norm_eps = 1e-5;          // of that norm
  int64_t gate_low_rank_dim = 16;  // of the decay, in operators that have one
  double gate_logit_normalizer = 16;
  double clamp_min = 0;            // as in LogSigmoid
  int64_t max_position = 2048;     // of the rotary embedding, in operators that have one
  int64_t tp_size = 1;             // ranks the heads are divided over
  int64_t tp_rank = 0;             // which of them this is
  bool reduce_results = true;      // add up the ranks' outputs; else each keeps its part
  std::string weight_format = {};  // none is supported: elements of dtype
  DType dtype = DType::kBF16;

  template <class Visitor>
  void visit(Visitor&& v) {
    v("hidden_size", hidden_size);
    v("num_heads", num_heads);
    v("num_kv_heads", num_kv_heads);
    v("head_k_dim", head_k_dim);
    v("head_v_dim", head_v_dim);
    v("use_output_gate", use_output_gate);
    v("fuse_norm", fuse_norm);
    v("norm_eps", norm_eps);
    v("gate_low_rank_dim", gate_low_rank_dim);
    v("gate_logit_normalizer", gate_logit_normalizer);
    v("clamp_min", clamp_min);
    v("max_position", max_position);
    v("tp_size", tp_size);
    v("tp_rank", tp_rank);
    v("reduce_results", reduce_results);
    v("weight_format", weight_format);
    v("dtype", dtype);
  }
};

class LinearAttentionBlock : public Operator {
 public:
  static constexpr int kLevel = 2;
  using Init = LinearAttentionInit;

  // positions i64 [T], hidden_states [T, D] -> out [T, D].
  static constexpr std::array kArgs{in("positions"), in("hidden_states"), out("out")};

  explicit LinearAttentionBlock(const Init& init) : init_(init) {}
  virtual void forward(Context& ctx, View positions, View hidden_states, View out) = 0;

  // A matrix for every head and sequence.
  static std::vector<StateSpec> states(const Init& init);
  static OutputSpecs outputs(const Init& init, Args given);
  static Inputs inputs(const Init& init, const Workload& workload);
  static Tolerance tolerance(const Init& init, DType dtype);
  // Of this rank.
  static LinearRecurrenceInit recurrence(const Init& init);

 protected:
  // The projections, and the given cost of the recurrence; `low_rank`: of a decay.
  static Cost cost_with(const Init& init, Cost recurrence, bool low_rank, const Workload& workload);

  const Init init_;
};

}  // namespace fk
