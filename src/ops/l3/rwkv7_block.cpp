#include "ops/l3/rwkv7_block.h"

#include "ops/l1/layer_norm.h"
#include "ops/l3/decoder_layer.h"
#include "ops/register.h"

namespace fk {

OutputSpecs RWKV7Block::outputs(const Init& init, Args given) {
  TensorSpec row = given[0]->spec();
  return {row, row, init.attention.first_layer ? std::optional(row) : std::nullopt};
}

Inputs RWKV7Block::inputs(const Init& init, const Workload& w) {
  Inputs inputs = RWKV7Attention::inputs(init.attention, w);
  // The first layer has no residual.
  return {inputs[0], w.optional_inputs && !init.attention.first_layer ? inputs[0] : std::nullopt, inputs[1]};
}

Cost RWKV7Block::cost(const Init& init, const Workload& w) {
  return DecoderLayer::cost_of_blocks(init.attention.hidden_size, RWKV7Attention::cost(init.attention, w),
                                      RWKV7FeedForward::cost(init.mlp, w), w);
}

Tolerance RWKV7Block::tolerance(const Init& init, DType dtype) {
  Tolerance t = composed_tolerance(dtype, static_cast<double>(init.mlp.intermediate_size));
  return {2 * t.relative, 6 * t.of_scale};
}

std::vector<Case<RWKV7Block>> RWKV7Block::cases() {
  Init c{.attention = {.hidden_size = 64,
                       .head_dim = 16,
                       .decay_low_rank_dim = 8,
                       .gate_low_rank_dim = 12,
                       .a_low_rank_dim = 8,
                       .v_low_rank_dim = 6,
                       .norm_eps = 1e-2},
         .mlp = {.hidden_size = 64, .intermediate_size = 160}};
  Init first = c;
  first.attention.first_layer = first.pre_norm = true;
  Init wide{.attention = {.hidden_size = 128,
                          .head_dim = 64,
                          .decay_low_rank_dim = 24,
                          .gate_low_rank_dim = 40,
                          .a_low_rank_dim = 16,
                          .v_low_rank_dim = 9,
                          .norm_eps = 1e-2},
            .mlp = {.hidden_size = 128, .intermediate_size = 264},
            .norm_bias = false};
  return {
      {"first layer", first, Workload::batch({{1, 20}, {9, 0}})},
      {"later layer", c, Workload::batch({{1, 33}, {4, 17}}, true)},
      {"first layer, decode", first, Workload::batch({{1, 20}, {1, 3}, {1, 7}})},
      {"later layer, decode", wide, Workload::batch({{1, 33}}, true)},
      {"eight tokens of decoding and prompts", wide, Workload::batch({{1, 9}, {1, 2}, {1, 0}, {3, 0}, {2, 17}}, true)}};
}

namespace {

class ComposedRWKV7Block final : public RWKV7Block {
 public:
  ComposedRWKV7Block(const Init& c, Builder& builder)
      : RWKV7Block(c),
        attn_norm_(builder.child<LayerNorm>("attn_norm", norm(c))),
        attn_(builder.child<RWKV7Attention>("attn", c.attention)),
        ffn_norm_(builder.child<LayerNorm>("ffn_norm", norm(c))),
        ffn_(builder.child<RWKV7FeedForward>("ffn", c.mlp)) {
    if (c.pre_norm) pre_norm_.emplace(builder.child<LayerNorm>("pre_norm", norm(c)));
  }

  void forward(Context& ctx, View hidden_states, OptView residual, OptView v_first, View out, View residual_out,
               OptView v_first_out) override {
    View stream = pre_norm_ ? std::get<0>((*pre_norm_)(ctx, hidden_states)) : hidden_states;
    auto [normed, sum] = attn_norm_(ctx, stream, residual);
    View mixed = ctx.arena.make(hidden_states.spec());
    attn_.into(ctx, normed, v_first, mixed, v_first_out);
    View ready = ctx.arena.make(hidden_states.spec());
    ffn_norm_.into(ctx, mixed, sum ? *sum : stream, ready, residual_out);
    ffn_.into(ctx, ready, out);
  }

 private:
  static LayerNorm::Init norm(const Init& c) {
    return {.hidden_size = c.attention.hidden_size, .eps = c.norm_eps, .bias = c.norm_bias, .dtype = c.attention.dtype};
  }

  std::optional<Op<LayerNorm>> pre_norm_;
  Op<LayerNorm> attn_norm_;
  Op<RWKV7Attention> attn_;
  Op<LayerNorm> ffn_norm_;
  Op<RWKV7FeedForward> ffn_;
};

FK_COMPOSITION(RWKV7Block, ComposedRWKV7Block);

}  // namespace
}  // namespace fk
