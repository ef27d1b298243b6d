#include "ops/l3/jamba_decoder_layer.h"

#include <algorithm>

#include "ops/l1/rms_norm.h"
#include "ops/l2/jamba_attention.h"
#include "ops/l2/llama_mlp.h"
#include "ops/register.h"

namespace fk {

Cost JambaDecoderLayer::cost(const Init& init, const Workload& w) {
  Cost mixer = init.has_mamba() ? MambaMixer::cost(init.mamba, w) : AttentionBlock::cost(init.attention, w);
  Cost feed_forward = init.has_experts() ? SparseMoeBlock::cost(init.moe, w) : MlpBlock::cost(init.mlp, w);
  return cost_of_blocks(init.attention.hidden_size, mixer, feed_forward, w);
}

Tolerance JambaDecoderLayer::tolerance(const Init& init, DType dtype) {
  Tolerance t = init.has_experts() ? SparseMoeBlock::tolerance(init.moe, dtype) : MlpBlock::tolerance(init.mlp, dtype);
  Tolerance m = init.has_mamba() ? MambaMixer::tolerance(init.mamba, dtype) : t;
  return {2 * std::max(t.relative, m.relative), 2 * std::max(t.of_scale, m.of_scale)};
}

std::vector<Case<JambaDecoderLayer>> JambaDecoderLayer::cases() {
  Init attention{
      {.attention = {.hidden_size = 40, .num_heads = 4, .num_kv_heads = 2, .head_dim = 10, .max_position = 512},
       .mlp = {.hidden_size = 40, .intermediate_size = 72}}};
  Init mamba = attention;
  mamba.mamba = {
      .hidden_size = 40, .intermediate_size = 80, .state_size = 8, .time_step_rank = 3, .inner_norms = "weighted"};
  // All experts: with fewer, rounding in bf16 could change the choice, and then the reference computes something else.
  Init experts = mamba;
  experts.moe = {.hidden_size = 40, .num_experts = 3, .top_k = 3, .intermediate_size = 36, .renormalize = false};
  return {{"attention, first layer", attention, Workload::batch({{1, 20}, {9, 0}})},
          {"attention, later layer", attention, Workload::batch({{1, 33}, {4, 17}}, true)},
          {"mamba, first layer", mamba, Workload::batch({{1, 20}, {9, 0}})},
          {"mamba, experts, later layer", experts, Workload::batch({{1, 33}, {4, 17}}, true)}};
}

namespace {

class ComposedJambaDecoderLayer final : public JambaDecoderLayer {
 public:
  ComposedJambaDecoderLayer(const Init& init, Builder& builder)
      : JambaDecoderLayer(init),
        input_layernorm(builder.child<RMSNorm>("input_layernorm", norm<RMSNorm>(init))),
        pre_ff_layernorm(builder.child<RMSNorm>("pre_ff_layernorm", norm<RMSNorm>(init))) {
    if (init.has_mamba())
      mamba.emplace(builder.child<MambaMixer>("mamba", init.mamba));
    else
      self_attn.emplace(builder.child<JambaAttention>("self_attn", init.attention));
    if (init.has_experts())
      experts.emplace(builder.child<JambaMoE>("feed_forward", init.moe));
    else
      mlp.emplace(builder.child<LlamaMLP>("feed_forward", init.mlp));
  }

  void forward(Context& ctx, View positions, View hidden_states, OptView residual, View out,
               View residual_out) override {
    auto [normed, sum] = input_layernorm(ctx, hidden_states, residual);
    View mixed = mamba ? (*mamba)(ctx, normed) : (*self_attn)(ctx, positions, normed);
    View ready = ctx.arena.make(mixed.spec());
    pre_ff_layernorm.into(ctx, mixed, sum ? *sum : hidden_states, ready, residual_out);
    if (experts)
      experts->into(ctx, ready, out);
    else
      mlp->into(ctx, ready, out);
  }

 private:
  Op<RMSNorm> input_layernorm, pre_ff_layernorm;
  std::optional<Op<MambaMixer>> mamba;
  std::optional<Op<JambaAttention>> self_attn;
  std::optional<Op<JambaMoE>> experts;
  std::optional<Op<LlamaMLP>> mlp;
};

FK_COMPOSITION(JambaDecoderLayer, ComposedJambaDecoderLayer);

}  // namespace
}  // namespace fk
