#include "ops/l3/eagle3_decoder_layer.h"

#include "ops/l1/concat_columns.h"
#include "ops/l1/rms_norm.h"
#include "ops/l2/llama_mlp.h"
#include "ops/register.h"

namespace fk {

OutputSpecs Eagle3DecoderLayer::outputs(const Init&, Args given) { return {given[1]->spec(), given[1]->spec()}; }

Inputs Eagle3DecoderLayer::inputs(const Init& init, const Workload& w) {
  Inputs inputs = AttentionBlock::inputs(init.attention, w);
  inputs.push_back(inputs[1]);
  return inputs;
}

Cost Eagle3DecoderLayer::cost(const Init& init, const Workload& w) {
  // Without a residual of the layer before.
  Workload alone = w;
  alone.optional_inputs = false;
  return DecoderLayer::cost_of_blocks(init.attention.hidden_size, Eagle3Attention::cost(init.attention, w),
                                      MlpBlock::cost(init.mlp, w), alone);
}

std::vector<Case<Eagle3DecoderLayer>> Eagle3DecoderLayer::cases() {
  Init c{{.attention = {.hidden_size = 64,
                        .num_heads = 4,
                        .num_kv_heads = 2,
                        .head_dim = 16,
                        .max_position = 512,
                        .qk_norm = false},
          .mlp = {.hidden_size = 64, .intermediate_size = 176}}};
  Init normed = c;
  normed.norm_before_residual = normed.attention.qk_norm = true;
  return {{"mixed", c, Workload::batch({{1, 20}, {9, 0}})},
          {"the norm is the residual, norms of heads", normed, Workload::batch({{1, 33}, {4, 17}})}};
}

namespace {

class ComposedEagle3DecoderLayer final : public Eagle3DecoderLayer {
 public:
  ComposedEagle3DecoderLayer(const Init& init, Builder& builder)
      : Eagle3DecoderLayer(init),
        self_attn_(builder.child<Eagle3Attention>("self_attn", init.attention)),
        mlp_(builder.child<LlamaMLP>("mlp", init.mlp)),
        input_layernorm_(builder.child<RMSNorm>("input_layernorm", DecoderLayer::norm<RMSNorm>(init))),
        hidden_norm_(builder.child<RMSNorm>("hidden_norm", DecoderLayer::norm<RMSNorm>(init))),
        post_attention_layernorm_(
            builder.child<RMSNorm>("post_attention_layernorm", DecoderLayer::norm<RMSNorm>(init))),
        concat_(builder.child<ConcatColumns>("concat", {})) {}

  void forward(Context& ctx, View positions, View embeds, View hidden_states, View out, View residual_out) override {
    View token = std::get<0>(input_layernorm_(ctx, embeds, OptView()));
    View normed = std::get<0>(hidden_norm_(ctx, hidden_states, OptView()));
    View mixed = self_attn_(ctx, positions, concat_(ctx, token, normed));
    View ready = ctx.arena.make(mixed.spec());
    post_attention_layernorm_.into(ctx, mixed, init_.norm_before_residual ? normed : hidden_states, ready,
                                   residual_out);
    mlp_.into(ctx, ready, out);
  }

 private:
  Op<Eagle3Attention> self_attn_;
  Op<LlamaMLP> mlp_;
  Op<RMSNorm> input_layernorm_, hidden_norm_, post_attention_layernorm_;
  Op<ConcatColumns> concat_;
};

FK_COMPOSITION(Eagle3DecoderLayer, ComposedEagle3DecoderLayer);

}  // namespace
}  // namespace fk
