#include "ops/l3/kimi_decoder_layer.h"

#include "core/error.h"
#include "ops/register.h"

namespace fk {

Inputs KimiDecoderLayer::inputs(const Init& init, const Workload& w) {
  return MLADecoderLayer<DeepseekV2MLAAttention>::inputs(init, w);
}

Cost KimiDecoderLayer::cost(const Init& init, const Workload& w) {
  const Cost mixer =
      init.is_linear() ? KimiDeltaAttention::cost(init.linear, w) : DeepseekV2MLAAttention::cost(init.attention, w);
  const Cost feed_forward = init.has_experts() ? GroupedMoeBlock::cost(init.moe, w) : MlpBlock::cost(init.mlp, w);
  return DecoderLayer::cost_of_blocks(init.attention.hidden_size, mixer, feed_forward, w);
}

Tolerance KimiDecoderLayer::tolerance(const Init& init, DType dtype) {
  Tolerance t = MLADecoderLayer<DeepseekV2MLAAttention>::tolerance(init, dtype);
  return {t.relative, 2 * t.of_scale};  // as of Qwen3NextDecoderLayer
}

std::vector<Case<KimiDecoderLayer>> KimiDecoderLayer::cases() {
  // All experts: with fewer, rounding in bf16 could change the choice, and then the reference computes something else.
  Init attention{{.attention = {.hidden_size = 44,
                                .num_heads = 3,
                                .qk_nope_head_dim = 20,
                                .qk_rope_head_dim = 6,
                                .v_head_dim = 27,
                                .kv_lora_rank = 33,
                                .max_position = 512,
                                .rotary = false},
                  .mlp = {.hidden_size = 44, .intermediate_size = 96},
                  .moe = {{.hidden_size = 44,
                           .num_experts = 4,
                           .top_k = 4,
                           .intermediate_size = 28,
                           .shared_expert_intermediate_size = 30},
                          2,
                          2,
                          1.7}},
                 {}};
  Init linear = attention;
  linear.linear = {.hidden_size = 44, .num_heads = 3, .head_dim = 12, .rms_norm_eps = 1e-2};
  Init dense = linear;
  dense.moe.num_experts = 0;
  return {{"latent attention", attention, Workload::batch({{1, 20}, {9, 0}})},
          {"linear", linear, Workload::batch({{1, 33}, {4, 17}}, true)},
          {"linear, dense", dense, Workload::batch({{1, 33}, {4, 17}}, true)}};
}

namespace {

class ComposedKimiDecoderLayer final : public KimiDecoderLayer {
 public:
  ComposedKimiDecoderLayer(const Init& init, Builder& builder)
      : KimiDecoderLayer(init), blocks_(init, builder), feed_forward_(init, builder, {.experts = "block_sparse_moe"}) {
    if (init.attention.tp_size > 1) throw Error("Kimi delta attention runs on one rank; leave out --tp.");
    if (init.is_linear())
      linear_attn_.emplace(builder.child<KimiDeltaAttention>("self_attn", init.linear));
    else
      self_attn_.emplace(builder.child<DeepseekV2MLAAttention>("self_attn", init.attention));
  }

  void forward(Context& ctx, View positions, View hidden_states, OptView residual, View out,
               View residual_out) override {
    blocks_.run(
        ctx, hidden_states, residual, residual_out,
        [&](const View& normed) {
          return linear_attn_ ? (*linear_attn_)(ctx, normed) : (*self_attn_)(ctx, positions, normed);
        },
        [&](const View& ready) { feed_forward_.into(ctx, ready, out); });
  }

 private:
  std::optional<Op<KimiDeltaAttention>> linear_attn_;
  std::optional<Op<DeepseekV2MLAAttention>> self_attn_;
  PreNormBlocks<RMSNorm> blocks_;
  MlpOrExperts<DeepseekV2MoE> feed_forward_;
};

FK_COMPOSITION(KimiDecoderLayer, ComposedKimiDecoderLayer);

}  // namespace
}  // namespace fk
