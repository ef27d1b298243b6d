#include "ops/l2/deepseek_v32_mla_attention.h"

#include "core/error.h"
#include "ops/l2/mla_queries.h"
#include "ops/register.h"

namespace fk {

Indexer::Init DeepseekV32MLAAttention::indexer(const Init& init) {
  return {.hidden_size = init.hidden_size,
          .q_lora_rank = init.q_lora_rank,
          .num_heads = init.index_n_heads,
          .head_dim = init.index_head_dim,
          .rope_dim = init.qk_rope_head_dim,
          .top_k = init.index_topk,
          .max_position = init.max_position,
          .rope_theta = init.rope_theta,
          .rope_scaling = init.rope_scaling,
          .is_neox_style = init.index_is_neox_style,
          .weight_format = init.weight_format,
          .dtype = init.dtype};
}

Cost DeepseekV32MLAAttention::cost(const Init& init, const Workload& w) {
  // The projections are those of V3; of its attention this one's is less.
  Cost cost = DeepseekV2MLAAttention::cost(init, w);
  Cost dense = MLAAttention::cost(DeepseekV2MLAAttention::core(init), w), sparse = MLASparseAttention::cost(core(init), w),
       index = Indexer::cost(indexer(init), w);
  auto size = static_cast<double>(dtype_size(w.dtype));
  // The hidden states and the latents of queries are read already, and indices need not go through memory.
  double shared = size * static_cast<double>(w.num_tokens() * (init.hidden_size + init.q_lora_rank));
  double list = 4 * static_cast<double>(w.num_tokens() * init.index_topk);
  cost.read_bytes += sparse.read_bytes - dense.read_bytes + index.read_bytes - shared - list;
  cost.written_bytes += index.written_bytes - list;
  cost.matrix_flops += std::min(0.0, sparse.matrix_flops - dense.matrix_flops) + index.matrix_flops;
  cost.vector_flops += std::min(0.0, sparse.vector_flops - dense.vector_flops) + index.vector_flops;
  return cost;
}

std::vector<Case<DeepseekV32MLAAttention>> DeepseekV32MLAAttention::cases() {
  // As many keys as are seen: with fewer, rounding could change the choice, and then the reference computes something
  // else. The last two have so few queries that none of them sees two keys so alike.
  Init small{{.hidden_size = 48,
              .num_heads = 4,
              .qk_nope_head_dim = 16,
              .qk_rope_head_dim = 8,
              .v_head_dim = 16,
              .q_lora_rank = 24,
              .kv_lora_rank = 16},
             16,
             16,
             48};
  Init odd{{.hidden_size = 44,
            .num_heads = 3,
            .qk_nope_head_dim = 20,
            .qk_rope_head_dim = 6,
            .v_head_dim = 27,
            .q_lora_rank = 31,
            .kv_lora_rank = 33},
           5,
           27,
           40,
           false};
  Init few = small, few_odd = odd;
  few.index_topk = 3;
  few_odd.index_topk = 2;
  Init halves = small;
  halves.is_neox_style = true;
  halves.index_is_neox_style = false;
  halves.bias = true;
  return {
      {"mixed", small, Workload::batch({{1, 20}, {9, 0}, {4, 17}})},
      {"odd", odd, Workload::batch({{1, 20}, {7, 0}, {1, 38}})},
      {"few tokens", small, Workload::batch({{1, 20}, {1, 33}, {4, 17}})},
      {"one token, halves", halves, Workload::batch({{1, 40}})},
      {"some of the keys", few, Workload::batch({{1, 6}, {1, 9}, {2, 4}})},
      {"some of the keys, odd", few_odd, Workload::batch({{1, 7}, {2, 5}})},
  };
}

namespace {

class ComposedDeepseekV32MLAAttention final : public DeepseekV32MLAAttention {
 public:
  ComposedDeepseekV32MLAAttention(const Init& init, Builder& builder)
      : DeepseekV32MLAAttention(init),
        queries(init, builder),
        choose(builder.child<Indexer>("indexer", indexer(init))),
        attn(builder.child<MLASparseAttention>("", core(init))),
        o_proj(builder.child<RowParallelLinear>("o_proj", mla_output(init))) {
    if (init.q_lora_rank == 0) throw Error("Sparse latent attention needs latents of queries; give a q_lora_rank.");
  }

  void forward(Context& ctx, View positions, View hidden_states, View out) override {
    auto [q, q_c] = queries.project(ctx, positions, hidden_states);
    auto [kv_c, k_pe] = queries.latents(ctx, positions, hidden_states);
    View topk_indices = choose(ctx, positions, hidden_states, *q_c);
    o_proj.into(ctx, attn(ctx, q, kv_c, k_pe, topk_indices), out, OptView());
  }

 private:
  MLAQueries queries;
  Op<Indexer> choose;
  Op<MLASparseAttention> attn;
  Op<RowParallelLinear> o_proj;
};

FK_COMPOSITION(DeepseekV32MLAAttention, ComposedDeepseekV32MLAAttention);

}  // namespace
}  // namespace fk
