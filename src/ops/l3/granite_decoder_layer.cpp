#include "ops/l3/granite_decoder_layer.h"

#include "ops/l1/rms_norm.h"
#include "ops/l1/scale_add.h"
#include "ops/l2/llama_attention.h"
#include "ops/l2/llama_mlp.h"
#include "ops/register.h"

namespace fk {

std::vector<Case<GraniteDecoderLayer>> GraniteDecoderLayer::cases() {
  Init c{{.attention = {.hidden_size = 36, .num_heads = 3, .num_kv_heads = 1, .head_dim = 14, .scale = 0.31},
          .mlp = {.hidden_size = 36, .intermediate_size = 101}},
         0.22};
  return {
      {"first layer", c, Workload::batch({{1, 20}, {9, 0}})},
      {"later layer", c, Workload::batch({{1, 33}, {4, 17}}, true)},
  };
}

namespace {

class ComposedGraniteDecoderLayer final : public GraniteDecoderLayer {
 public:
  ComposedGraniteDecoderLayer(const Init& init, Builder& builder)
      : GraniteDecoderLayer(init),
        self_attn(builder.child<LlamaAttention>("self_attn", init.attention)),
        mlp(builder.child<LlamaMLP>("mlp", init.mlp)),
        input_layernorm(builder.child<RMSNorm>("input_layernorm", norm<RMSNorm>(init))),
        post_attention_layernorm(builder.child<RMSNorm>("post_attention_layernorm", norm<RMSNorm>(init))),
        scale(builder.child<ScaleAdd>("scale", {.scale = init.residual_multiplier})) {}

  void forward(Context& ctx, View positions, View hidden_states, OptView residual, View out,
               View residual_out) override {
    auto [normed, sum] = input_layernorm(ctx, hidden_states, residual);
    View attended = scale(ctx, self_attn(ctx, positions, normed));
    View ready = ctx.arena.make(attended.spec());
    post_attention_layernorm.into(ctx, attended, sum ? *sum : hidden_states, ready, residual_out);
    scale.into(ctx, mlp(ctx, ready), OptView(), out);
  }

 private:
  Op<LlamaAttention> self_attn;
  Op<LlamaMLP> mlp;
  Op<RMSNorm> input_layernorm;
  Op<RMSNorm> post_attention_layernorm;
  Op<ScaleAdd> scale;
};

FK_COMPOSITION(GraniteDecoderLayer, ComposedGraniteDecoderLayer);

}  // namespace
}  // namespace fk
