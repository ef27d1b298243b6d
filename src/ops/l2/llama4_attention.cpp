#include "ops/l2/llama4_attention.h"

#include "ops/l1/attention_temperature.h"
#include "ops/l1/unweighted_rms_norm.h"
#include "ops/register.h"

namespace fk {

Attention::Init Llama4Attention::core(const Init& init) {
  Attention::Init attention = AttentionBlock::core(init);
  attention.attention_chunk_size = init.attention_chunk_size;
  return attention;
}

std::vector<Case<Llama4Attention>> Llama4Attention::cases() {
  Init chunked{{.hidden_size = 44, .num_heads = 6, .num_kv_heads = 3, .head_dim = 20, .is_neox_style = false}};
  chunked.attention_chunk_size = 9;
  Init plain = chunked;
  plain.qk_norm = false;
  plain.bias = plain.bias_o_proj = true;
  Init global{{.hidden_size = 40, .num_heads = 4, .num_kv_heads = 1, .head_dim = 16, .is_neox_style = false}};
  global.use_rope = false;
  global.attn_temperature_tuning = true;
  global.attn_scale = 0.4;
  global.floor_scale = 4;
  return {
      {"chunks, norms", chunked, Workload::batch({{1, 20}, {19, 0}, {4, 17}})},
      {"without norms, bias", plain, Workload::batch({{1, 8}, {7, 5}})},
      {"without a rotary embedding", global, Workload::batch({{1, 20}, {9, 0}})},
  };
}

namespace {

class ComposedLlama4Attention final : public Llama4Attention {
 public:
  ComposedLlama4Attention(const Init& init, Builder& builder)
      : Llama4Attention(init),
        heads_(rank_share(init.num_heads, init.tp_size, "attention heads")),
        kv_heads_(rank_kv_heads(init.num_kv_heads, init.tp_size)),
        qkv_proj(builder.child<QKVParallelLinear>("qkv_proj", {.hidden_size = init.hidden_size,
                                                               .head_size = init.head_dim,
                                                               .total_num_heads = init.num_heads,
                                                               .total_num_kv_heads = init.num_kv_heads,
                                                               .bias = init.bias,
                                                               .tp_size = init.tp_size,
                                                               .tp_rank = init.tp_rank,
                                                               .weight_format = AttentionBlock::qkv_format(init),
                                                               .dtype = init.dtype})),
        o_proj(builder.child<RowParallelLinear>("o_proj", {.input_size = init.num_heads * init.head_dim,
                                                           .output_size = init.hidden_size,
                                                           .bias = init.bias_o_proj,
                                                           .reduce_results = init.reduce_results,
                                                           .tp_size = init.tp_size,
                                                           .tp_rank = init.tp_rank,
                                                           .weight_format = AttentionBlock::output_format(init),
                                                           .dtype = init.dtype})),
        attn(builder.child<Attention>("attn", core(init))) {
    if (init.use_rope) rotary_emb.emplace(builder.child<RotaryEmbedding>("rotary_emb", AttentionBlock::rotary(init)));
    if (init.use_rope && init.qk_norm)
      qk_norm.emplace(
          builder.child<UnweightedRMSNorm>("qk_norm", {.hidden_size = init.head_dim, .eps = init.rms_norm_eps}));
    if (!init.use_rope && init.attn_temperature_tuning)
      temperature.emplace(builder.child<AttentionTemperature>(
          "temperature", {.attn_scale = init.attn_scale, .floor_scale = init.floor_scale}));
  }

  void forward(Context& ctx, View positions, View hidden_states, View out) override {
    int64_t q_size = heads_ * init_.head_dim, kv_size = kv_heads_ * init_.head_dim;
    View qkv = std::get<0>(qkv_proj(ctx, hidden_states));
    View q = qkv.narrow(1, 0, q_size), k = qkv.narrow(1, q_size, kv_size), v = qkv.narrow(1, q_size + kv_size, kv_size);
    if (rotary_emb) (*rotary_emb)(ctx, positions, q, k);
    if (qk_norm) {
      q = (*qk_norm)(ctx, q.split_last(heads_, init_.head_dim)).flatten_last();
      k = (*qk_norm)(ctx, k.split_last(kv_heads_, init_.head_dim)).flatten_last();
    }
    if (temperature) q = (*temperature)(ctx, positions, q);
    o_proj.into(ctx, attn(ctx, q, k, v), out, OptView());
  }

 private:
  const int64_t heads_, kv_heads_;  // of this rank
  Op<QKVParallelLinear> qkv_proj;
  Op<RowParallelLinear> o_proj;
  Op<Attention> attn;
  std::optional<Op<RotaryEmbedding>> rotary_emb;
  std::optional<Op<UnweightedRMSNorm>> qk_norm;
  std::optional<Op<AttentionTemperature>> temperature;
};

FK_COMPOSITION(Llama4Attention, ComposedLlama4Attention);

}  // namespace
}  // namespace fk
