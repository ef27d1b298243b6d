#include "ops/l3/olmo2_decoder_layer.h"

#include "ops/l1/rms_norm.h"
#include "ops/l1/scale_add.h"
#include "ops/l2/llama_mlp.h"
#include "ops/l2/olmo2_attention.h"
#include "ops/register.h"

namespace fk {

std::vector<Case<Olmo2DecoderLayer>> Olmo2DecoderLayer::cases() {
  Init c{.attention = {.hidden_size = 52, .num_heads = 6, .num_kv_heads = 2, .head_dim = 10, .max_position = 512},
         .mlp = {.hidden_size = 52, .intermediate_size = 140}};
  return {
      {"first layer", c, Workload::batch({{1, 20}, {9, 0}})},
      {"later layer", c, Workload::batch({{1, 33}, {4, 17}}, true)},
  };
}

namespace {

class ComposedOlmo2DecoderLayer final : public Olmo2DecoderLayer {
 public:
  ComposedOlmo2DecoderLayer(const Init& init, Builder& builder)
      : Olmo2DecoderLayer(init),
        self_attn(builder.child<Olmo2Attention>("self_attn", init.attention)),
        mlp(builder.child<LlamaMLP>("mlp", init.mlp)),
        post_attention_layernorm(builder.child<RMSNorm>("post_attention_layernorm", norm<RMSNorm>(init))),
        post_feedforward_layernorm(builder.child<RMSNorm>("post_feedforward_layernorm", norm<RMSNorm>(init))),
        add(builder.child<ScaleAdd>("add", {})) {}

  void forward(Context& ctx, View positions, View hidden_states, OptView residual, View out,
               View residual_out) override {
    View stream = residual ? add(ctx, hidden_states, residual) : hidden_states;
    View attended = std::get<0>(post_attention_layernorm(ctx, self_attn(ctx, positions, stream)));
    add.into(ctx, attended, stream, residual_out);
    post_feedforward_layernorm.into(ctx, mlp(ctx, residual_out), OptView(), out, OptView());
  }

 private:
  Op<Olmo2Attention> self_attn;
  Op<LlamaMLP> mlp;
  Op<RMSNorm> post_attention_layernorm;
  Op<RMSNorm> post_feedforward_layernorm;
  Op<ScaleAdd> add;
};

FK_COMPOSITION(Olmo2DecoderLayer, ComposedOlmo2DecoderLayer);

}  // namespace
}  // namespace fk
