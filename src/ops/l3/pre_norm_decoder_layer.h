// The composition of pre-norm decoder layers: Llama's, and those that differ from it only in the attention block.
#pragma once

#include "ops/l1/rms_norm.h"
#include "ops/l2/llama_mlp.h"
#include "ops/l3/decoder_layer.h"
#include "ops/op.h"

namespace fk {

// T: the operator; SelfAttention: its attention block.
template <class T, class SelfAttention>
class PreNormDecoderLayer final : public T {
 public:
  using Init = DecoderLayerInit;

  PreNormDecoderLayer(const Init& init, Builder& builder)
      : T(init),
        self_attn(builder.child<SelfAttention>("self_attn", init.attention)),
        mlp(builder.child<LlamaMLP>("mlp", init.mlp)),
        input_layernorm(builder.child<RMSNorm>("input_layernorm", DecoderLayer::norm<RMSNorm>(init))),
        post_attention_layernorm(
            builder.child<RMSNorm>("post_attention_layernorm", DecoderLayer::norm<RMSNorm>(init))) {}

  void forward(Context& ctx, View positions, View hidden_states, OptView residual, View out,
               View residual_out) override {
    auto [normed, sum] = input_layernorm(ctx, hidden_states, residual);
    View attended = self_attn(ctx, positions, normed);
    View ready = ctx.arena.make(attended.spec());
    post_attention_layernorm.into(ctx, attended, sum ? *sum : hidden_states, ready, residual_out);
    mlp.into(ctx, ready, out);
  }

 private:
  Op<SelfAttention> self_attn;
  Op<LlamaMLP> mlp;
  Op<RMSNorm> input_layernorm;
  Op<RMSNorm> post_attention_layernorm;
};

}  // namespace fk
