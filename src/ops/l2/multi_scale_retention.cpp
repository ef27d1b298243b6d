#include "ops/l2/multi_scale_retention.h"

#include "ops/l1/chunk_retention.h"
#include "ops/l1/fused_recurrent_retention.h"
#include "ops/l1/rotary_emb.h"
#include "ops/l2/composed_linear_attention.h"
#include "ops/register.h"

namespace fk {

Cost MultiScaleRetention::cost(const Init& init, const Workload& w) {
  return cost_with(init, ChunkRetention::cost(recurrence(init), w), false, w);
}

std::vector<Case<MultiScaleRetention>> MultiScaleRetention::cases() {
  Init c{.hidden_size = 64, .num_heads = 2, .num_kv_heads = 2, .head_k_dim = 32, .head_v_dim = 64, .max_position = 512};
  Init odd{.hidden_size = 60, .num_heads = 6, .num_kv_heads = 3, .head_k_dim = 10, .head_v_dim = 15};
  odd.use_output_gate = false;
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

class ComposedMultiScaleRetention final : public ComposedLinearAttention<MultiScaleRetention> {
 public:
  ComposedMultiScaleRetention(const Init& init, Builder& builder)
      : ComposedLinearAttention(init, builder),
        rotary_emb_(builder.child<RotaryEmbedding>("rotary", {.head_size = init.head_k_dim,
                                                              .rotary_dim = init.head_k_dim,
                                                              .max_position_embeddings = init.max_position,
                                                              .dtype = init.dtype})),
        retention_(builder, rank_) {}

 protected:
  View mix(Context& ctx, const View& positions, const View&, const View& q, const View& k, const View& v) override {
    rotary_emb_(ctx, positions, q, k);
    return retention_(ctx, own_state(ctx, 0), q.split_last(rank_.num_heads, rank_.head_k_dim),
                      k.split_last(rank_.k_heads(), rank_.head_k_dim), v.split_last(rank_.v_heads(), rank_.head_v_dim));
  }

 private:
  Op<RotaryEmbedding> rotary_emb_;
  BatchedRecurrence<ChunkRetention, FusedRecurrentRetention> retention_;
};

FK_COMPOSITION(MultiScaleRetention, ComposedMultiScaleRetention);

}  // namespace
}  // namespace fk
