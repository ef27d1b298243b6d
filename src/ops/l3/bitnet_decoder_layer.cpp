#include "ops/l3/bitnet_decoder_layer.h"

#include "ops/l1/rms_norm.h"
#include "ops/l2/bitnet_attention.h"
#include "ops/l2/bitnet_mlp.h"
#include "ops/register.h"

namespace fk {

Tolerance BitNetDecoderLayer::tolerance(const Init& init, DType dtype) {
  Tolerance t = DecoderLayer::tolerance(init, dtype);
  return {t.relative, 2 * t.of_scale};  // as of its blocks
}

std::vector<Case<BitNetDecoderLayer>> BitNetDecoderLayer::cases() {
  Init c{.attention = {.hidden_size = 60, .num_heads = 6, .num_kv_heads = 2, .head_dim = 10, .max_position = 512},
         .mlp = {.hidden_size = 60, .intermediate_size = 132}};
  Init ternary = c;
  ternary.attention.weight_format = ternary.mlp.weight_format = "ternary";
  return {
      {"first layer", c, Workload::batch({{1, 20}, {9, 0}})},
      {"later layer, ternary", ternary, Workload::batch({{1, 33}, {4, 17}}, true)},
  };
}

namespace {

class ComposedBitNetDecoderLayer final : public BitNetDecoderLayer {
 public:
  ComposedBitNetDecoderLayer(const Init& init, Builder& builder)
      : BitNetDecoderLayer(init),
        self_attn(builder.child<BitNetAttention>("self_attn", init.attention)),
        mlp(builder.child<BitNetMLP>("mlp", {init.mlp, init.rms_norm_eps})),
        input_layernorm(builder.child<RMSNorm>("input_layernorm", norm<RMSNorm>(init))),
        post_attention_layernorm(builder.child<RMSNorm>("post_attention_layernorm", norm<RMSNorm>(init))) {}

  void forward(Context& ctx, View positions, View hidden_states, OptView residual, View out,
               View residual_out) override {
    auto [normed, sum] = input_layernorm(ctx, hidden_states, residual);
    View attended = self_attn(ctx, positions, normed);
    View ready = ctx.arena.make(attended.spec());
    post_attention_layernorm.into(ctx, attended, sum ? *sum : hidden_states, ready, residual_out);
    mlp.into(ctx, ready, out);
  }

 private:
  Op<BitNetAttention> self_attn;
  Op<BitNetMLP> mlp;
  Op<RMSNorm> input_layernorm;
  Op<RMSNorm> post_attention_layernorm;
};

FK_COMPOSITION(BitNetDecoderLayer, ComposedBitNetDecoderLayer);

}  // namespace
}  // namespace fk
