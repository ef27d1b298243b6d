#include "ops/l3/llama4_decoder_layer.h"

#include "ops/l1/rms_norm.h"
#include "ops/l3/pre_norm_blocks.h"
#include "ops/register.h"

namespace fk {

Inputs Llama4DecoderLayer::inputs(const Init& init, const Workload& w) {
  Inputs inputs = Llama4Attention::inputs(init.attention, w);
  inputs.push_back(w.optional_inputs ? inputs[1] : std::nullopt);
  return inputs;
}

Cost Llama4DecoderLayer::cost(const Init& init, const Workload& w) {
  return DecoderLayer::cost_of_blocks(init.attention.hidden_size, Llama4Attention::cost(init.attention, w),
                                      init.has_experts() ? Llama4MoE::cost(init.moe, w) : MlpBlock::cost(init.mlp, w),
                                      w);
}

Tolerance Llama4DecoderLayer::tolerance(const Init& init, DType dtype) {
  Tolerance t = init.has_experts() ? Llama4MoE::tolerance(init.moe, dtype) : MlpBlock::tolerance(init.mlp, dtype);
  return {2 * t.relative, 2 * t.of_scale};
}

std::vector<Case<Llama4DecoderLayer>> Llama4DecoderLayer::cases() {
  // One expert: with more, rounding in bf16 could change the choice, and then the reference computes something else.
  Init c{.attention = {{.hidden_size = 44,
                        .num_heads = 6,
                        .num_kv_heads = 3,
                        .head_dim = 20,
                        .max_position = 512,
                        .is_neox_style = false}},
         .mlp = {.hidden_size = 44, .intermediate_size = 96},
         .moe = {.hidden_size = 44,
                 .num_experts = 1,
                 .top_k = 1,
                 .intermediate_size = 28,
                 .shared_expert_intermediate_size = 28}};
  c.attention.attention_chunk_size = 8;
  Init dense = c;
  dense.moe.num_experts = 0;
  dense.attention.use_rope = false;
  dense.attention.attn_temperature_tuning = true;
  dense.attention.floor_scale = 4;
  return {
      {"first layer", c, Workload::batch({{1, 20}, {9, 0}})},
      {"later layer, dense, without a rotary embedding", dense, Workload::batch({{1, 33}, {4, 17}}, true)},
  };
}

namespace {

class ComposedLlama4DecoderLayer final : public Llama4DecoderLayer {
 public:
  ComposedLlama4DecoderLayer(const Init& init, Builder& builder)
      : Llama4DecoderLayer(init),
        self_attn(builder.child<Llama4Attention>("self_attn", init.attention)),
        blocks(init, builder),
        feed_forward(init, builder, {.mlp = "feed_forward", .experts = "feed_forward"}) {}

  void forward(Context& ctx, View positions, View hidden_states, OptView residual, View out,
               View residual_out) override {
    blocks.run(
        ctx, hidden_states, residual, residual_out,
        [&](const View& normed) { return self_attn(ctx, positions, normed); },
        [&](const View& ready) { feed_forward.into(ctx, ready, out); });
  }

 private:
  Op<Llama4Attention> self_attn;
  PreNormBlocks<RMSNorm> blocks;
  MlpOrExperts<Llama4MoE> feed_forward;
};

FK_COMPOSITION(Llama4DecoderLayer, ComposedLlama4DecoderLayer);

}  // namespace
}  // namespace fk
