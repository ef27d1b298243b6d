#include "ops/l3/glm4_decoder_layer.h"

#include "ops/l1/rms_norm.h"
#include "ops/l2/llama_attention.h"
#include "ops/l2/llama_mlp.h"
#include "ops/register.h"

namespace fk {

std::vector<Case<Glm4DecoderLayer>> Glm4DecoderLayer::cases() {
  Init c{.attention = {.hidden_size = 44,
                       .num_heads = 3,
                       .num_kv_heads = 1,
                       .head_dim = 24,
                       .max_position = 512,
                       .rotary_dim = 6,
                       .is_neox_style = false,
                       .bias = true},
         .mlp = {.hidden_size = 44, .intermediate_size = 115}};
  return {
      {"first layer", c, Workload::batch({{1, 20}, {9, 0}})},
      {"later layer", c, Workload::batch({{1, 33}, {4, 17}}, true)},
  };
}

namespace {

class ComposedGlm4DecoderLayer final : public Glm4DecoderLayer {
 public:
  ComposedGlm4DecoderLayer(const Init& init, Builder& builder)
      : Glm4DecoderLayer(init),
        self_attn(builder.child<LlamaAttention>("self_attn", init.attention)),
        mlp(builder.child<LlamaMLP>("mlp", init.mlp)),
        input_layernorm(builder.child<RMSNorm>("input_layernorm", norm<RMSNorm>(init))),
        post_self_attn_layernorm(builder.child<RMSNorm>("post_self_attn_layernorm", norm<RMSNorm>(init))),
        post_attention_layernorm(builder.child<RMSNorm>("post_attention_layernorm", norm<RMSNorm>(init))),
        post_mlp_layernorm(builder.child<RMSNorm>("post_mlp_layernorm", norm<RMSNorm>(init))) {}

  void forward(Context& ctx, View positions, View hidden_states, OptView residual, View out,
               View residual_out) override {
    auto [normed, sum] = input_layernorm(ctx, hidden_states, residual);
    View attended = std::get<0>(post_self_attn_layernorm(ctx, self_attn(ctx, positions, normed)));
    View ready = ctx.arena.make(attended.spec());
    // Named as in Llama: it comes after the attention and before the feed-forward block.
    post_attention_layernorm.into(ctx, attended, sum ? *sum : hidden_states, ready, residual_out);
    post_mlp_layernorm.into(ctx, mlp(ctx, ready), OptView(), out, OptView());
  }

 private:
  Op<LlamaAttention> self_attn;
  Op<LlamaMLP> mlp;
  Op<RMSNorm> input_layernorm;
  Op<RMSNorm> post_self_attn_layernorm;
  Op<RMSNorm> post_attention_layernorm;
  Op<RMSNorm> post_mlp_layernorm;
};

FK_COMPOSITION(Glm4DecoderLayer, ComposedGlm4DecoderLayer);

}  // namespace
}  // namespace fk
