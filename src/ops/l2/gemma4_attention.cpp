#include "ops/l2/gemma4_attention.h"

#include "ops/l1/rms_norm.h"
#include "ops/l1/unweighted_rms_norm.h"
#include "ops/l2/merged_column_parallel_linear.h"
#include "ops/register.h"

namespace fk {

Cost Gemma4Attention::cost(const Init& init, const Workload& w) {
  Attention::Init core = AttentionBlock::core(init);
  Cost cost = AttentionBlock::cost_with(init, core, w);
  if (!init.k_eq_v) return cost;
  auto T = static_cast<double>(w.num_tokens()),
       matrix = static_cast<double>(init.hidden_size * core.num_kv_heads * init.head_dim);
  cost.read_bytes -= matrix * static_cast<double>(dtype_size(w.dtype));
  cost.matrix_flops -= 2 * T * matrix;
  return cost;
}

std::vector<Case<Gemma4Attention>> Gemma4Attention::cases() {
  Init sliding{{.hidden_size = 48, .num_heads = 4, .num_kv_heads = 2, .head_dim = 16, .scale = 1, .sliding_window = 8}};
  Init global{{.hidden_size = 44,
               .num_heads = 6,
               .num_kv_heads = 3,
               .head_dim = 20,
               .rope_theta = 1e6,
               .rope_scaling = {.type = "proportional", .partial_rotary_factor = 0.25},
               .bias = true,
               .bias_o_proj = true,
               .scale = 1}};
  Init shared = global;
  shared.k_eq_v = true;
  return {
      {"sliding", sliding, Workload::batch({{1, 20}, {19, 0}})},
      {"global, bias", global, Workload::batch({{1, 33}, {6, 2}})},
      {"values from keys", shared, Workload::batch({{1, 33}, {6, 2}, {11, 0}})},
  };
}

namespace {

class ComposedGemma4Attention final : public Gemma4Attention {
 public:
  ComposedGemma4Attention(const Init& init, Builder& builder)
      : Gemma4Attention(init),
        heads_(rank_share(init.num_heads, init.tp_size, "attention heads")),
        kv_heads_(rank_kv_heads(init.num_kv_heads, init.tp_size)),
        q_norm(builder.child<RMSNorm>("q_norm", head_norm(init))),
        k_norm(builder.child<RMSNorm>("k_norm", head_norm(init))),
        v_norm(builder.child<UnweightedRMSNorm>("v_norm", {.hidden_size = init.head_dim, .eps = init.rms_norm_eps})),
        rotary_emb(builder.child<RotaryEmbedding>("rotary_emb", AttentionBlock::rotary(init))),
        attn(builder.child<Attention>("attn", AttentionBlock::core(init))),
        o_proj(builder.child<RowParallelLinear>("o_proj", {.input_size = init.num_heads * init.head_dim,
                                                           .output_size = init.hidden_size,
                                                           .bias = init.bias_o_proj,
                                                           .reduce_results = init.reduce_results,
                                                           .tp_size = init.tp_size,
                                                           .tp_rank = init.tp_rank,
                                                           .weight_format = AttentionBlock::output_format(init),
                                                           .dtype = init.dtype})) {
    if (init.k_eq_v)
      // Ranks that are more than the key heads have a copy of one each, so the sizes are multiples of what a rank has.
      qk_proj.emplace(builder.child<MergedColumnParallelLinear>(
          "qk_proj", {.input_size = init.hidden_size,
                      .output_sizes = {init.tp_size * heads_ * init.head_dim, init.tp_size * kv_heads_ * init.head_dim},
                      .bias = init.bias,
                      .tp_size = init.tp_size,
                      .tp_rank = init.tp_rank,
                      .dtype = init.dtype}));
    else
      qkv_proj.emplace(builder.child<QKVParallelLinear>("qkv_proj", {.hidden_size = init.hidden_size,
                                                                     .head_size = init.head_dim,
                                                                     .total_num_heads = init.num_heads,
                                                                     .total_num_kv_heads = init.num_kv_heads,
                                                                     .bias = init.bias,
                                                                     .tp_size = init.tp_size,
                                                                     .tp_rank = init.tp_rank,
                                                                     .weight_format = AttentionBlock::qkv_format(init),
                                                                     .dtype = init.dtype}));
  }

  void forward(Context& ctx, View positions, View hidden_states, View out) override {
    int64_t q_size = heads_ * init_.head_dim, kv_size = kv_heads_ * init_.head_dim;
    View all = std::get<0>(qk_proj ? (*qk_proj)(ctx, hidden_states) : (*qkv_proj)(ctx, hidden_states));
    View q = all.narrow(1, 0, q_size), k = all.narrow(1, q_size, kv_size);
    View v = qk_proj ? k : all.narrow(1, q_size + kv_size, kv_size);
    q = std::get<0>(q_norm(ctx, q.split_last(heads_, init_.head_dim))).flatten_last();
    v = v_norm(ctx, v.split_last(kv_heads_, init_.head_dim)).flatten_last();
    k = std::get<0>(k_norm(ctx, k.split_last(kv_heads_, init_.head_dim))).flatten_last();
    rotary_emb(ctx, positions, q, k);
    o_proj.into(ctx, attn(ctx, q, k, v), out, OptView());
  }

 private:
  static RMSNorm::Init head_norm(const Init& init) {
    return {.hidden_size = init.head_dim, .eps = init.rms_norm_eps, .dtype = init.dtype};
  }

  const int64_t heads_, kv_heads_;  // of this rank
  // One of the two.
  std::optional<Op<QKVParallelLinear>> qkv_proj;
  std::optional<Op<MergedColumnParallelLinear>> qk_proj;
  Op<RMSNorm> q_norm;
  Op<RMSNorm> k_norm;
  Op<UnweightedRMSNorm> v_norm;
  Op<RotaryEmbedding> rotary_emb;
  Op<Attention> attn;
  Op<RowParallelLinear> o_proj;
};

FK_COMPOSITION(Gemma4Attention, ComposedGemma4Attention);

}  // namespace
}  // namespace fk
