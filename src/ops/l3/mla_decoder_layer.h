// The common part of decoder layers with latent attention: norm, attention, norm, feed-forward block or experts.
#pragma once

#include <algorithm>

#include "ops/l1/rms_norm.h"
#include "ops/l2/deepseek_v2_mla_attention.h"
#include "ops/l2/deepseek_v2_moe.h"
#include "ops/l2/llama_mlp.h"
#include "ops/l3/decoder_layer.h"
#include "ops/l3/pre_norm_blocks.h"

namespace fk {

// Attention: the block of attention.
template <class Attention>
struct MLADecoderLayerInit {
  typename Attention::Init attention = {};
  MlpBlockInit mlp = {};
  GroupedMoeBlockInit moe = {};  // without experts the layer has the feed-forward block `mlp`
  double rms_norm_eps = 1e-6;    // of the layer's own norms

  bool has_experts() const { return moe.num_experts > 0; }

  template <class Visitor>
  void visit(Visitor&& v) {
    v("attention", attention);
    v("mlp", mlp);
    v("moe", moe);
    v("rms_norm_eps", rms_norm_eps);
  }
};

template <class Attention>
class MLADecoderLayer : public Operator {
 public:
  static constexpr int kLevel = 3;
  using Init = MLADecoderLayerInit<Attention>;
  using SelfAttention = Attention;

  // As in DecoderLayer.
  static constexpr std::array kArgs = DecoderLayer::kArgs;

  explicit MLADecoderLayer(const Init& init) : init_(init) {}
  virtual void forward(Context& ctx, View positions, View hidden_states, OptView residual, View out,
                       View residual_out) = 0;

  static OutputSpecs outputs(const Init&, Args given) { return {given[1]->spec(), given[1]->spec()}; }
  static Inputs inputs(const Init& init, const Workload& w) {
    Inputs inputs = Attention::inputs(init.attention, w);
    inputs.push_back(w.optional_inputs ? inputs[1] : std::nullopt);
    return inputs;
  }
  static Cost cost(const Init& init, const Workload& w) {
    return DecoderLayer::cost_of_blocks(
        init.attention.hidden_size, Attention::cost(init.attention, w),
        init.has_experts() ? GroupedMoeBlock::cost(init.moe, w) : MlpBlock::cost(init.mlp, w), w);
  }
  static Tolerance tolerance(const Init& init, DType dtype) {
    Tolerance t =
        init.has_experts() ? GroupedMoeBlock::tolerance(init.moe, dtype) : MlpBlock::tolerance(init.mlp, dtype);
    Tolerance a = Attention::tolerance(init.attention, dtype);
    return {2 * std::max(t.relative, a.relative), 2 * std::max(t.of_scale, a.of_scale)};
  }

 protected:
  const Init init_;
};

// T: the operator.
template <class T>
class ComposedMLADecoderLayer final : public T {
 public:
  ComposedMLADecoderLayer(const typename T::Init& init, Builder& builder)
      : T(init),
        self_attn(builder.child<typename T::SelfAttention>("self_attn", init.attention)),
        blocks(init, builder),
        feed_forward(init, builder, {}) {}

  void forward(Context& ctx, View positions, View hidden_states, OptView residual, View out,
               View residual_out) override {
    blocks.run(
        ctx, hidden_states, residual, residual_out,
        [&](const View& normed) { return self_attn(ctx, positions, normed); },
        [&](const View& ready) { feed_forward.into(ctx, ready, out); });
  }

 private:
  Op<typename T::SelfAttention> self_attn;
  PreNormBlocks<RMSNorm> blocks;
  MlpOrExperts<DeepseekV2MoE> feed_forward;
};

}  // namespace fk
