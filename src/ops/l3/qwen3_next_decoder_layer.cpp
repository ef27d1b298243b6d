#include "ops/l3/qwen3_next_decoder_layer.h"

#include "ops/l1/gemma_rms_norm.h"
#include "ops/l2/qwen2_moe_sparse_moe_block.h"
#include "ops/l2/qwen3_next_attention.h"
#include "ops/l3/pre_norm_blocks.h"
#include "ops/register.h"

namespace fk {

Cost Qwen3NextDecoderLayer::cost(const Init& init, const Workload& w) {
  Cost mixer = init.is_linear() ? GatedDeltaNet::cost(init.linear, w) : Qwen3NextAttention::cost(init.attention, w);
  Cost feed_forward = init.has_experts() ? SparseMoeBlock::cost(init.moe, w) : MlpBlock::cost(init.mlp, w);
  return cost_of_blocks(init.attention.hidden_size, mixer, feed_forward, w);
}

Tolerance Qwen3NextDecoderLayer::tolerance(const Init& init, DType dtype) {
  Tolerance t = SparseDecoderLayer::tolerance(init, dtype);
  return {t.relative, 2 * t.of_scale};
}

std::vector<Case<Qwen3NextDecoderLayer>> Qwen3NextDecoderLayer::cases() {
  // All experts, as in Qwen2MoeDecoderLayer.
  Init attention{{{.attention = {.hidden_size = 48,
                                 .num_heads = 4,
                                 .num_kv_heads = 2,
                                 .head_dim = 12,
                                 .max_position = 512,
                                 .rotary_dim = 6},
                   .mlp = {.hidden_size = 48, .intermediate_size = 100}},
                  {.hidden_size = 48,
                   .num_experts = 3,
                   .top_k = 3,
                   .intermediate_size = 40,
                   .shared_expert_intermediate_size = 52}},
                 {}};
  Init linear = attention;
  linear.linear = {
      .hidden_size = 48, .num_k_heads = 2, .num_v_heads = 4, .head_k_dim = 12, .head_v_dim = 20, .norm_eps = 1e-2};
  Init dense = linear;
  dense.moe.num_experts = 0;
  // Sizes that kernels for one token take.
  Init wide{{{.attention = {.hidden_size = 64,
                            .num_heads = 4,
                            .num_kv_heads = 2,
                            .head_dim = 64,
                            .max_position = 512,
                            .rotary_dim = 16},
              .mlp = {.hidden_size = 64, .intermediate_size = 100}},
             {.hidden_size = 64,
              .num_experts = 3,
              .top_k = 3,
              .intermediate_size = 40,
              .shared_expert_intermediate_size = 56}},
            {}};
  Init wide_linear = wide;
  wide_linear.linear = {
      .hidden_size = 64, .num_k_heads = 2, .num_v_heads = 4, .head_k_dim = 32, .head_v_dim = 64, .norm_eps = 1e-2};
  return {{"attention, one token", wide, Workload::batch({{1, 20}})},
          {"linear, one token", wide_linear, Workload::batch({{1, 33}}, true)},
          {"attention", attention, Workload::batch({{1, 20}, {9, 0}})},
          {"linear", linear, Workload::batch({{1, 33}, {4, 17}}, true)},
          {"linear, dense", dense, Workload::batch({{1, 33}, {4, 17}}, true)}};
}

namespace {

class ComposedQwen3NextDecoderLayer final : public Qwen3NextDecoderLayer {
 public:
  ComposedQwen3NextDecoderLayer(const Init& init, Builder& builder)
      : Qwen3NextDecoderLayer(init), blocks_(init, builder), feed_forward_(init, builder, {}) {
    if (init.is_linear())
      linear_attn_.emplace(builder.child<GatedDeltaNet>("linear_attn", init.linear));
    else
      self_attn_.emplace(builder.child<Qwen3NextAttention>("self_attn", init.attention));
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
  std::optional<Op<GatedDeltaNet>> linear_attn_;
  std::optional<Op<Qwen3NextAttention>> self_attn_;
  PreNormBlocks<GemmaRMSNorm> blocks_;
  MlpOrExperts<Qwen2MoeSparseMoeBlock> feed_forward_;
};

FK_COMPOSITION(Qwen3NextDecoderLayer, ComposedQwen3NextDecoderLayer);

}  // namespace
}  // namespace fk
