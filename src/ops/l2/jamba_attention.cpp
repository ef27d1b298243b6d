#include "ops/l2/jamba_attention.h"

#include "ops/register.h"

namespace fk {

std::vector<Case<JambaAttention>> JambaAttention::cases() {
  return {{"decode and prefill",
           {.hidden_size = 60, .num_heads = 6, .num_kv_heads = 2, .head_dim = 10},
           Workload::batch({{1, 20}, {9, 0}, {4, 31}})}};
}

namespace {

class ComposedJambaAttention final : public JambaAttention {
 public:
  ComposedJambaAttention(const Init& init, Builder& builder)
      : JambaAttention(init),
        qkv_proj(builder.child<QKVParallelLinear>("qkv_proj", {.hidden_size = init.hidden_size,
                                                               .head_size = init.head_dim,
                                                               .total_num_heads = init.num_heads,
                                                               .total_num_kv_heads = init.num_kv_heads,
                                                               .dtype = init.dtype})),
        o_proj(builder.child<RowParallelLinear>(
            "o_proj",
            {.input_size = init.num_heads * init.head_dim, .output_size = init.hidden_size, .dtype = init.dtype})),
        attn(builder.child<Attention>("attn", core(init))) {}

  void forward(Context& ctx, View, View hidden_states, View out) override {
    int64_t q_size = init_.num_heads * init_.head_dim, kv_size = init_.num_kv_heads * init_.head_dim;
    View qkv = std::get<0>(qkv_proj(ctx, hidden_states));
    View attended =
        attn(ctx, qkv.narrow(1, 0, q_size), qkv.narrow(1, q_size, kv_size), qkv.narrow(1, q_size + kv_size, kv_size));
    o_proj.into(ctx, attended, out, OptView());
  }

 private:
  Op<QKVParallelLinear> qkv_proj;
  Op<RowParallelLinear> o_proj;
  Op<Attention> attn;
};

FK_COMPOSITION(JambaAttention, ComposedJambaAttention);

}  // namespace
}  // namespace fk
