#include "ops/l3/gemma4_decoder_layer.h"

#include "ops/l1/layer_scalar.h"
#include "ops/l1/rms_norm.h"
#include "ops/l2/gemma_mlp.h"
#include "ops/register.h"

namespace fk {

Cost Gemma4DecoderLayer::cost(const Init& init, const Workload& w) {
  double stream =
      static_cast<double>(w.num_tokens() * init.attention.hidden_size) * static_cast<double>(dtype_size(w.dtype));
  // What passes from block to block need not go through memory.
  Cost cost = Gemma4Attention::cost(init.attention, w), mlp = MlpBlock::cost(init.mlp, w);
  cost.read_bytes += mlp.read_bytes - stream;
  cost.matrix_flops += mlp.matrix_flops;
  cost.vector_flops += mlp.vector_flops;
  if (!init.has_experts()) return cost;
  Cost moe = Gemma4MoE::cost(init.moe, w);
  cost.read_bytes += moe.read_bytes - 2 * stream;
  cost.matrix_flops += moe.matrix_flops;
  cost.vector_flops += moe.vector_flops;
  return cost;
}

Tolerance Gemma4DecoderLayer::tolerance(const Init& init, DType dtype) {
  Tolerance t = MlpBlock::tolerance(init.mlp, dtype);
  return {2 * t.relative, 2 * t.of_scale};
}

std::vector<Case<Gemma4DecoderLayer>> Gemma4DecoderLayer::cases() {
  // All experts: with fewer, rounding in bf16 could change the choice, and then the reference computes something else.
  Init c{.attention = {{.hidden_size = 44,
                        .num_heads = 6,
                        .num_kv_heads = 2,
                        .head_dim = 20,
                        .max_position = 512,
                        .rope_theta = 1e6,
                        .rope_scaling = {.type = "proportional", .partial_rotary_factor = 0.25},
                        .scale = 1},
                       true},
         .mlp = {.hidden_size = 44, .intermediate_size = 96},
         .moe = {.hidden_size = 44, .num_experts = 3, .top_k = 3, .intermediate_size = 28}};
  Init dense{.attention = {{.hidden_size = 44,
                            .num_heads = 4,
                            .num_kv_heads = 4,
                            .head_dim = 12,
                            .max_position = 512,
                            .scale = 1,
                            .sliding_window = 7}},
             .mlp = {.hidden_size = 44, .intermediate_size = 101}};
  // Rows of whole 16 bytes. The feed-forward block is wider than an expert, or narrower.
  Init one = c, sliding = dense;
  one.attention.hidden_size = one.mlp.hidden_size = one.moe.hidden_size = 64;
  one.attention.head_dim = 64;
  one.attention.k_eq_v = true;
  one.mlp.intermediate_size = 104;
  one.moe.intermediate_size = 40;
  sliding.attention.hidden_size = sliding.mlp.hidden_size = 64;
  sliding.attention.head_dim = 24;
  sliding.mlp.intermediate_size = 72;
  Init narrow = sliding;
  narrow.mlp.intermediate_size = 24;
  narrow.moe = {.hidden_size = 64, .num_experts = 9, .top_k = 9, .intermediate_size = 40};
  // Heads as wide as the model's, decoding only.
  Init wide_sliding = sliding, wide_global = one;
  wide_sliding.attention.head_dim = 256;
  wide_sliding.attention.num_kv_heads = 2;
  wide_global.attention.head_dim = 512;
  return {
      {"global, experts", c, Workload::batch({{1, 20}, {9, 0}})},
      {"sliding, dense", dense, Workload::batch({{1, 33}, {4, 17}})},
      {"one token, global, experts", one, Workload::batch({{1, 20}})},
      {"one token, sliding, experts", narrow, Workload::batch({{1, 33}})},
      {"few tokens, sliding, dense", sliding, Workload::batch({{1, 33}, {4, 17}})},
      {"decoding, wide heads, sliding", wide_sliding, Workload::batch({{1, 33}, {1, 2}, {1, 16}})},
      {"one token, wide heads, global", wide_global, Workload::batch({{1, 70}})},
  };
}

namespace {

class ComposedGemma4DecoderLayer final : public Gemma4DecoderLayer {
 public:
  ComposedGemma4DecoderLayer(const Init& init, Builder& builder)
      : Gemma4DecoderLayer(init),
        self_attn(builder.child<Gemma4Attention>("self_attn", init.attention)),
        mlp(builder.child<GemmaMLP>("mlp", init.mlp)),
        input_layernorm(builder.child<RMSNorm>("input_layernorm", norm(init))),
        post_attention_layernorm(builder.child<RMSNorm>("post_attention_layernorm", norm(init))),
        pre_feedforward_layernorm(builder.child<RMSNorm>("pre_feedforward_layernorm", norm(init))),
        post_feedforward_layernorm(builder.child<RMSNorm>("post_feedforward_layernorm", norm(init))),
        layer_scalar(builder.child<LayerScalar>("layer_scalar", {.dtype = init.attention.dtype})) {
    if (!init.has_experts()) return;
    experts.emplace(Experts{builder.child<Gemma4MoE>("moe", init.moe),
                            builder.child<RMSNorm>("pre_feedforward_layernorm_2", norm(init)),
                            builder.child<RMSNorm>("post_feedforward_layernorm_1", norm(init)),
                            builder.child<RMSNorm>("post_feedforward_layernorm_2", norm(init))});
  }

  void forward(Context& ctx, View positions, View hidden_states, View out) override {
    View normed = std::get<0>(input_layernorm(ctx, hidden_states, OptView()));
    View attended = std::get<0>(post_attention_layernorm(ctx, self_attn(ctx, positions, normed), OptView()));
    auto [ready, sum] = pre_feedforward_layernorm(ctx, attended, hidden_states);
    View computed = mlp(ctx, ready);
    OptView of_experts;
    if (experts) {
      computed = std::get<0>(experts->post_norm_of_mlp(ctx, computed, OptView()));
      View input = std::get<0>(experts->pre_norm(ctx, *sum, OptView()));
      of_experts = std::get<0>(experts->post_norm(ctx, experts->moe(ctx, input, *sum), OptView()));
    }
    View last = std::get<0>(post_feedforward_layernorm(ctx, computed, of_experts));
    layer_scalar.into(ctx, last, *sum, out);
  }

 private:
  struct Experts {
    Op<Gemma4MoE> moe;
    Op<RMSNorm> pre_norm;
    Op<RMSNorm> post_norm_of_mlp;  // of the feed-forward block, before the experts are added to it
    Op<RMSNorm> post_norm;
  };

  static RMSNorm::Init norm(const Init& init) {
    return {.hidden_size = init.attention.hidden_size, .eps = init.rms_norm_eps, .dtype = init.attention.dtype};
  }

  Op<Gemma4Attention> self_attn;
  Op<GemmaMLP> mlp;
  Op<RMSNorm> input_layernorm;
  Op<RMSNorm> post_attention_layernorm;
  Op<RMSNorm> pre_feedforward_layernorm;
  Op<RMSNorm> post_feedforward_layernorm;
  std::optional<Experts> experts;
  Op<LayerScalar> layer_scalar;
};

FK_COMPOSITION(Gemma4DecoderLayer, ComposedGemma4DecoderLayer);

}  // namespace
}  // namespace fk
