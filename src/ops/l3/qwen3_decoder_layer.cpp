#include "ops/l3/qwen3_decoder_layer.h"

#include "ops/l1/rms_norm.h"
#include "ops/l2/llama_mlp.h"
#include "ops/l2/qwen3_attention.h"
#include "ops/register.h"

namespace fk {

std::vector<Case<Qwen3DecoderLayer>> Qwen3DecoderLayer::cases() {
  CausalLMConfig c{.hidden_size = 72,
                   .intermediate_size = 200,
                   .num_hidden_layers = 2,
                   .num_attention_heads = 6,
                   .num_key_value_heads = 3,
                   .head_dim = 24,
                   .max_position_embeddings = 512};
  return {
      {"first layer", {c, 0}, Workload::batch({{1, 20}, {9, 0}})},
      {"later layer", {c, 1}, Workload::batch({{1, 33}, {4, 17}}, true)},
  };
}

namespace {

class ComposedQwen3DecoderLayer final : public Qwen3DecoderLayer {
 public:
  ComposedQwen3DecoderLayer(const Init& init, Builder& builder)
      : Qwen3DecoderLayer(init),
        self_attn(builder.child<Qwen3Attention>("self_attn", attention(init))),
        mlp(builder.child<LlamaMLP>("mlp", DecoderLayer::mlp(init))),
        input_layernorm(builder.child<RMSNorm>("input_layernorm", norm(init))),
        post_attention_layernorm(builder.child<RMSNorm>("post_attention_layernorm", norm(init))) {}

  void forward(Context& ctx, View positions, View hidden_states, OptView residual, View out,
               View residual_out) override {
    auto [normed, sum] = input_layernorm(ctx, hidden_states, residual);
    View attended = self_attn(ctx, positions, normed);
    View ready = ctx.arena.make(attended.spec());
    post_attention_layernorm.into(ctx, attended, sum ? *sum : hidden_states, ready, residual_out);
    mlp.into(ctx, ready, out);
  }

 private:
  static RMSNorm::Init norm(const Init& init) {
    return {.hidden_size = init.config.hidden_size, .eps = init.config.rms_norm_eps, .dtype = init.config.dtype};
  }

  Op<Qwen3Attention> self_attn;
  Op<LlamaMLP> mlp;
  Op<RMSNorm> input_layernorm;
  Op<RMSNorm> post_attention_layernorm;
};

FK_COMPOSITION(Qwen3DecoderLayer, ComposedQwen3DecoderLayer);

}  // namespace
}  // namespace fk
