#include "ops/l2/gated_linear_attention.h"

#include "ops/l1/chunk_gla.h"
#include "ops/l1/fused_recurrent_gla.h"
#include "ops/l1/logsigmoid.h"
#include "ops/l2/column_parallel_linear.h"
#include "ops/l2/composed_linear_attention.h"
#include "ops/l2/replicated_linear.h"
#include "ops/register.h"

namespace fk {

Cost GatedLinearAttention::cost(const Init& init, const Workload& w) {
  return cost_with(init, ChunkGLA::cost(recurrence(init), w), true, w);
}

std::vector<Case<GatedLinearAttention>> GatedLinearAttention::cases() {
  Init c{.hidden_size = 64, .num_heads = 2, .num_kv_heads = 2, .head_k_dim = 16, .head_v_dim = 32};
  Init odd{.hidden_size = 60, .num_heads = 4, .num_kv_heads = 2, .head_k_dim = 10, .head_v_dim = 15};
  odd.use_output_gate = false;
  odd.gate_low_rank_dim = 5;
  odd.gate_logit_normalizer = 4;
  odd.clamp_min = -0.25;
  Init rank = c;
  rank.tp_size = 2;
  rank.tp_rank = 1;
  rank.reduce_results = false;
  rank.fuse_norm = false;
  return {{"decode", c, Workload::batch({{1, 5}, {1, 40}})},
          {"mixed", c, Workload::batch({{1, 30}, {1, 1}, {17, 0}, {5, 33}})},
          {"odd, keys shared", odd, Workload::batch({{1, 3}, {9, 0}})},
          {"one of two ranks", rank, Workload::batch({{1, 20}, {9, 0}})}};
}

namespace {

class ComposedGatedLinearAttention final : public ComposedLinearAttention<GatedLinearAttention> {
 public:
  ComposedGatedLinearAttention(const Init& init, Builder& builder)
      : ComposedLinearAttention(init, builder),
        gk_down_(builder.child<ReplicatedLinear>(
            "gk_proj.0", {.input_size = init.hidden_size, .output_size = init.gate_low_rank_dim, .dtype = init.dtype})),
        gk_up_(builder.child<ColumnParallelLinear>("gk_proj.1", {.input_size = init.gate_low_rank_dim,
                                                                 .output_size = init.num_kv_heads * init.head_k_dim,
                                                                 .bias = true,
                                                                 .tp_size = init.tp_size,
                                                                 .tp_rank = init.tp_rank,
                                                                 .dtype = init.dtype})),
        logsigmoid_(builder.child<LogSigmoid>(
            "logsigmoid", {.temperature = init.gate_logit_normalizer, .clamp_min = init.clamp_min})),
        gla_(builder, rank_) {}

 protected:
  View mix(Context& ctx, const View&, const View& x, const View& q, const View& k, const View& v) override {
    View decay = logsigmoid_(ctx, std::get<0>(gk_up_(ctx, std::get<0>(gk_down_(ctx, x)))));
    return gla_(ctx, own_state(ctx, 0), q.split_last(rank_.num_heads, rank_.head_k_dim),
                k.split_last(rank_.k_heads(), rank_.head_k_dim), v.split_last(rank_.v_heads(), rank_.head_v_dim),
                decay.split_last(rank_.k_heads(), rank_.head_k_dim));
  }

 private:
  Op<ReplicatedLinear> gk_down_;
  Op<ColumnParallelLinear> gk_up_;
  Op<LogSigmoid> logsigmoid_;
  BatchedRecurrence<ChunkGLA, FusedRecurrentGLA> gla_;
};

FK_COMPOSITION(GatedLinearAttention, ComposedGatedLinearAttention);

}  // namespace
}  // namespace fk
