// The common part of pre-norm decoder layers with experts: as Llama's, with a mixture of experts in place of the
// feed-forward block, on all layers or on some.
#pragma once

#include "ops/l1/rms_norm.h"
#include "ops/l2/llama_mlp.h"
#include "ops/l2/sparse_moe_block.h"
#include "ops/l3/decoder_layer.h"
#include "ops/op.h"

namespace fk {

// Moe: the block of experts, or what the blocks of several families have in common.
template <class Moe>
struct DecoderLayerInitWith : DecoderLayerInit {
  typename Moe::Init moe = {};  // without experts the layer has the feed-forward block `mlp`

  bool has_experts() const { return moe.num_experts > 0; }

  template <class Visitor>
  void visit(Visitor&& v) {
    DecoderLayerInit::visit(v);
    v("moe", moe);
  }
};

template <class Moe>
class DecoderLayerWith : public DecoderLayer {
 public:
  using Init = DecoderLayerInitWith<Moe>;

  explicit DecoderLayerWith(const Init& init) : DecoderLayer(init) {}

  static OutputSpecs outputs(const Init& init, Args given) { return DecoderLayer::outputs(init, given); }
  static Inputs inputs(const Init& init, const Workload& w) { return DecoderLayer::inputs(init, w); }
  static Cost cost(const Init& init, const Workload& w) {
    return DecoderLayer::cost_with(init.attention,
                                   init.has_experts() ? Moe::cost(init.moe, w) : MlpBlock::cost(init.mlp, w), w);
  }
  static Tolerance tolerance(const Init& init, DType dtype) {
    Tolerance t = init.has_experts() ? Moe::tolerance(init.moe, dtype) : MlpBlock::tolerance(init.mlp, dtype);
    return {2 * t.relative, 2 * t.of_scale};
  }
};

using SparseDecoderLayerInit = DecoderLayerInitWith<SparseMoeBlock>;
using SparseDecoderLayer = DecoderLayerWith<SparseMoeBlock>;

// T: the operator, whose kExperts is the name of its experts in checkpoints.
template <class T, class SelfAttention, class Experts>
class ComposedSparseDecoderLayer final : public T {
 public:
  ComposedSparseDecoderLayer(const typename T::Init& init, Builder& builder)
      : T(init),
        self_attn(builder.child<SelfAttention>("self_attn", init.attention)),
        input_layernorm(builder.child<RMSNorm>("input_layernorm", DecoderLayer::norm<RMSNorm>(init))),
        post_attention_layernorm(
            builder.child<RMSNorm>("post_attention_layernorm", DecoderLayer::norm<RMSNorm>(init))) {
    if (init.has_experts())
      experts.emplace(builder.child<Experts>(T::kExperts, init.moe));
    else
      mlp.emplace(builder.child<LlamaMLP>("mlp", init.mlp));
  }

  void forward(Context& ctx, View positions, View hidden_states, OptView residual, View out,
               View residual_out) override {
    auto [normed, sum] = input_layernorm(ctx, hidden_states, residual);
    View attended = self_attn(ctx, positions, normed);
    View ready = ctx.arena.make(attended.spec());
    post_attention_layernorm.into(ctx, attended, sum ? *sum : hidden_states, ready, residual_out);
    if (experts)
      experts->into(ctx, ready, out);
    else
      mlp->into(ctx, ready, out);
  }

 private:
  Op<SelfAttention> self_attn;
  std::optional<Op<Experts>> experts;
  std::optional<Op<LlamaMLP>> mlp;
  Op<RMSNorm> input_layernorm;
  Op<RMSNorm> post_attention_layernorm;
};

}  // namespace fk
