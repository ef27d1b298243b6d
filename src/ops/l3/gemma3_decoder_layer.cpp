#include "ops/l3/gemma3_decoder_layer.h"

#include "ops/l1/gemma_rms_norm.h"
#include "ops/l2/gemma3_attention.h"
#include "ops/l2/gemma_mlp.h"
#include "ops/register.h"

namespace fk {

std::vector<Case<Gemma3DecoderLayer>> Gemma3DecoderLayer::cases() {
  Init c{.attention = {.hidden_size = 48, .num_heads = 2, .num_kv_heads = 1, .head_dim = 32, .max_position = 512},
         .mlp = {.hidden_size = 48, .intermediate_size = 96}};
  Init sliding = c;
  sliding.attention.sliding_window = 8;
  return {
      {"first layer, sliding", sliding, Workload::batch({{1, 20}, {19, 0}})},
      {"later layer, global", c, Workload::batch({{1, 33}, {4, 17}}, true)},
  };
}

namespace {

class ComposedGemma3DecoderLayer final : public Gemma3DecoderLayer {
 public:
  ComposedGemma3DecoderLayer(const Init& init, Builder& builder)
      : Gemma3DecoderLayer(init),
        self_attn(builder.child<Gemma3Attention>("self_attn", init.attention)),
        mlp(builder.child<GemmaMLP>("mlp", init.mlp)),
        input_layernorm(builder.child<GemmaRMSNorm>("input_layernorm", norm<GemmaRMSNorm>(init))),
        post_attention_layernorm(builder.child<GemmaRMSNorm>("post_attention_layernorm", norm<GemmaRMSNorm>(init))),
        pre_feedforward_layernorm(builder.child<GemmaRMSNorm>("pre_feedforward_layernorm", norm<GemmaRMSNorm>(init))),
        post_feedforward_layernorm(
            builder.child<GemmaRMSNorm>("post_feedforward_layernorm", norm<GemmaRMSNorm>(init))) {}

  void forward(Context& ctx, View positions, View hidden_states, OptView residual, View out,
               View residual_out) override {
    auto [normed, sum] = input_layernorm(ctx, hidden_states, residual);
    View attended = std::get<0>(post_attention_layernorm(ctx, self_attn(ctx, positions, normed)));
    View ready = ctx.arena.make(attended.spec());
    pre_feedforward_layernorm.into(ctx, attended, sum ? *sum : hidden_states, ready, residual_out);
    post_feedforward_layernorm.into(ctx, mlp(ctx, ready), OptView(), out, OptView());
  }

 private:
  Op<Gemma3Attention> self_attn;
  Op<GemmaMLP> mlp;
  Op<GemmaRMSNorm> input_layernorm;
  Op<GemmaRMSNorm> post_attention_layernorm;
  Op<GemmaRMSNorm> pre_feedforward_layernorm;
  Op<GemmaRMSNorm> post_feedforward_layernorm;
};

FK_COMPOSITION(Gemma3DecoderLayer, ComposedGemma3DecoderLayer);

}  // namespace
}  // namespace fk
