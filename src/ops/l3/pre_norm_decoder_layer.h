// The composition of pre-norm decoder layers: Llama's, and those that differ from it only in the attention block.
#pragma once

#include "ops/l1/rms_norm.h"
#include "ops/l2/llama_mlp.h"
#include "ops/l3/decoder_layer.h"
#include "ops/l3/pre_norm_blocks.h"

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
        blocks(init, builder) {}

  void forward(Context& ctx, View positions, View hidden_states, OptView residual, View out,
               View residual_out) override {
    blocks.run(
        ctx, hidden_states, residual, residual_out,
        [&](const View& normed) { return self_attn(ctx, positions, normed); },
        [&](const View& ready) { mlp.into(ctx, ready, out); });
  }

 private:
  Op<SelfAttention> self_attn;
  Op<LlamaMLP> mlp;
  PreNormBlocks<RMSNorm> blocks;
};

}  // namespace fk
