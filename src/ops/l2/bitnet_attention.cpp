#include "ops/l2/bitnet_attention.h"

#include "core/error.h"
#include "ops/l1/act_quant_int8.h"
#include "ops/l1/rms_norm.h"
#include "ops/register.h"

namespace fk {

Tolerance BitNetAttention::tolerance(const Init& init, DType dtype) {
  Tolerance t = AttentionBlock::tolerance(init, dtype);
  return {t.relative, 2 * t.of_scale};  // the norm makes what attention averages, and its errors, as large as before
}

std::vector<Case<BitNetAttention>> BitNetAttention::cases() {
  return {
      {"elements, bias",
       {.hidden_size = 60, .num_heads = 6, .num_kv_heads = 3, .head_dim = 10, .bias = true, .bias_o_proj = true},
       Workload::batch({{1, 20}, {9, 0}, {4, 17}})},
      {"ternary",
       {.hidden_size = 64, .num_heads = 4, .num_kv_heads = 2, .head_dim = 16, .weight_format = "ternary"},
       Workload::batch({{1, 20}, {9, 0}})},
      {"ternary, odd, scales that divide",
       {.hidden_size = 36, .num_heads = 3, .num_kv_heads = 1, .head_dim = 12, .weight_format = "ternary_inverse"},
       Workload::batch({{1, 33}, {6, 2}})},
  };
}

namespace {

class ComposedBitNetAttention final : public BitNetAttention {
 public:
  ComposedBitNetAttention(const Init& init, Builder& builder)
      : BitNetAttention(init),
        qkv_proj(builder.child<QKVParallelLinear>("qkv_proj", {.hidden_size = init.hidden_size,
                                                               .head_size = init.head_dim,
                                                               .total_num_heads = init.num_heads,
                                                               .total_num_kv_heads = init.num_kv_heads,
                                                               .bias = init.bias,
                                                               .tp_size = init.tp_size,
                                                               .weight_format = qkv_format(init),
                                                               .dtype = init.dtype})),
        rotary_emb(builder.child<RotaryEmbedding>("rotary_emb", rotary(init))),
        attn(builder.child<Attention>("attn", core(init))),
        attn_sub_norm(builder.child<RMSNorm>(
            "attn_sub_norm",
            {.hidden_size = init.num_heads * init.head_dim, .eps = init.rms_norm_eps, .dtype = init.dtype})),
        o_proj(builder.child<RowParallelLinear>("o_proj", {.input_size = init.num_heads * init.head_dim,
                                                           .output_size = init.hidden_size,
                                                           .bias = init.bias_o_proj,
                                                           .reduce_results = init.reduce_results,
                                                           .tp_size = init.tp_size,
                                                           .weight_format = output_format(init),
                                                           .dtype = init.dtype})) {
    if (init.tp_size > 1)
      throw Error("{} norms the outputs of all heads together, which cannot be divided over {} ranks; use tp_size 1.",
                  kClass, init.tp_size);
    if (!init.weight_format.empty()) act_quant.emplace(builder.child<ActQuantInt8>("act_quant", {}));
  }

  void forward(Context& ctx, View positions, View hidden_states, View out) override {
    int64_t q_size = init_.num_heads * init_.head_dim, kv_size = init_.num_kv_heads * init_.head_dim;
    View qkv = std::get<0>(qkv_proj(ctx, rounded(ctx, hidden_states)));
    View q = qkv.narrow(1, 0, q_size), k = qkv.narrow(1, q_size, kv_size), v = qkv.narrow(1, q_size + kv_size, kv_size);
    rotary_emb(ctx, positions, q, k);
    View normed = std::get<0>(attn_sub_norm(ctx, attn(ctx, q, k, v), OptView()));
    o_proj.into(ctx, rounded(ctx, normed), out, OptView());
  }

 private:
  View rounded(Context& ctx, const View& x) const { return act_quant ? (*act_quant)(ctx, x) : x; }

  Op<QKVParallelLinear> qkv_proj;
  Op<RotaryEmbedding> rotary_emb;
  Op<Attention> attn;
  Op<RMSNorm> attn_sub_norm;
  Op<RowParallelLinear> o_proj;
  std::optional<Op<ActQuantInt8>> act_quant;
};

FK_COMPOSITION(BitNetAttention, ComposedBitNetAttention);

}  // namespace
}  // namespace fk
