#include "ops/l3/llama_decoder_layer.h"

#include "ops/l1/rms_norm.h"
#include "ops/l2/llama_attention.h"
#include "ops/l2/llama_mlp.h"
#include "ops/register.h"

namespace fk {

std::vector<Case<LlamaDecoderLayer>> LlamaDecoderLayer::cases() {
  CausalLMConfig c{.hidden_size = 64,
                   .intermediate_size = 176,
                   .num_hidden_layers = 2,
                   .num_attention_heads = 4,
                   .num_key_value_heads = 2,
                   .head_dim = 16,
                   .max_position_embeddings = 512};
  return {
      {"first layer", {c, 0}, Workload::batch({{1, 20}, {9, 0}})},
      {"later layer", {c, 1}, Workload::batch({{1, 33}, {4, 17}}, true)},
  };
}

namespace {

class ComposedLlamaDecoderLayer final : public LlamaDecoderLayer {
 public:
  ComposedLlamaDecoderLayer(const Init& init, Builder& builder)
      : LlamaDecoderLayer(init),
        self_attn(builder.child<LlamaAttention>("self_attn", attention(init))),
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

  Op<LlamaAttention> self_attn;
  Op<LlamaMLP> mlp;
  Op<RMSNorm> input_layernorm;
  Op<RMSNorm> post_attention_layernorm;
};

FK_COMPOSITION(LlamaDecoderLayer, ComposedLlamaDecoderLayer);

}  // namespace
}  // namespace fk
