#include "ops/l3/gemma3_decoder_layer.h"

#include <cmath>

#include "ops/l1/gemma_rms_norm.h"
#include "ops/l2/gemma3_attention.h"
#include "ops/l2/gemma_mlp.h"
#include "ops/register.h"

namespace fk {

std::vector<Case<Gemma3DecoderLayer>> Gemma3DecoderLayer::cases() {
  CausalLMConfig c{.hidden_size = 48,
                   .intermediate_size = 96,
                   .num_hidden_layers = 1,
                   .num_attention_heads = 2,
                   .num_key_value_heads = 1,
                   .head_dim = 32,
                   .max_position_embeddings = 512,
                   .query_pre_attn_scalar = 32};
  return {
      {"first layer, sliding", {c, 8}, Workload::batch({{1, 20}, {19, 0}})},
      {"later layer, global", {c, 0}, Workload::batch({{1, 33}, {4, 17}}, true)},
  };
}

AttentionBlockInit Gemma3DecoderLayer::attention(const Init& init) {
  AttentionBlockInit a = DecoderLayer::attention(init);
  double scalar = init.config.query_pre_attn_scalar;
  a.scale = 1 / std::sqrt(scalar > 0 ? scalar : static_cast<double>(a.head_dim));
  if (slides(init)) {
    a.rope_theta = init.config.rope_local_base_freq;
    a.rope_scaling = {};
  }
  return a;
}

namespace {

class ComposedGemma3DecoderLayer final : public Gemma3DecoderLayer {
 public:
  ComposedGemma3DecoderLayer(const Init& init, Builder& builder)
      : Gemma3DecoderLayer(init),
        self_attn(builder.child<Gemma3Attention>("self_attn", Gemma3DecoderLayer::attention(init))),
        mlp(builder.child<GemmaMLP>("mlp", DecoderLayer::mlp(init))),
        input_layernorm(builder.child<GemmaRMSNorm>("input_layernorm", norm(init))),
        post_attention_layernorm(builder.child<GemmaRMSNorm>("post_attention_layernorm", norm(init))),
        pre_feedforward_layernorm(builder.child<GemmaRMSNorm>("pre_feedforward_layernorm", norm(init))),
        post_feedforward_layernorm(builder.child<GemmaRMSNorm>("post_feedforward_layernorm", norm(init))) {}

  void forward(Context& ctx, View positions, View hidden_states, OptView residual, View out,
               View residual_out) override {
    auto [normed, sum] = input_layernorm(ctx, hidden_states, residual);
    View attended = std::get<0>(post_attention_layernorm(ctx, self_attn(ctx, positions, normed)));
    View ready = ctx.arena.make(attended.spec());
    pre_feedforward_layernorm.into(ctx, attended, sum ? *sum : hidden_states, ready, residual_out);
    post_feedforward_layernorm.into(ctx, mlp(ctx, ready), OptView(), out, OptView());
  }

 private:
  static GemmaRMSNorm::Init norm(const Init& init) {
    return {.hidden_size = init.config.hidden_size, .eps = init.config.rms_norm_eps, .dtype = init.config.dtype};
  }

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
