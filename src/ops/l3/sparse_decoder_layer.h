// The common part of pre-norm decoder layers with experts: as Llama's, with a mixture of experts in place of the
// feed-forward block, on all layers or on some.
#pragma once

#include "ops/l1/rms_norm.h"
#include "ops/l2/llama_mlp.h"
#include "ops/l2/sparse_moe_block.h"
#include "ops/l3/decoder_layer.h"
#include "ops/l3/pre_norm_blocks.h"

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
        blocks(init, builder),
        feed_forward(init, builder, {.experts = T::kExperts}) {}

  void forward(Context& ctx, View positions, View hidden_states, OptView residual, View out,
               View residual_out) override {
    blocks.run(
        ctx, hidden_states, residual, residual_out,
        [&](const View& normed) { return self_attn(ctx, positions, normed); },
        [&](const View& ready) { feed_forward.into(ctx, ready, out); });
  }

 private:
  Op<SelfAttention> self_attn;
  PreNormBlocks<RMSNorm> blocks;
  MlpOrExperts<Experts> feed_forward;
};

}  // namespace fk
