// The common part of the layers of GLA and RetNet: norm, recurrent block, norm, feed-forward block.
#pragma once

#include "ops/l1/rms_norm.h"
#include "ops/l2/linear_attention_block.h"
#include "ops/l2/llama_mlp.h"
#include "ops/l3/decoder_layer.h"
#include "ops/op.h"

namespace fk {

struct LinearAttentionLayerInit {
  LinearAttentionInit attention = {};
  MlpBlockInit mlp = {};
  double rms_norm_eps = 1e-6;  // of the layer's own norms

  template <class Visitor>
  void visit(Visitor&& v) {
    v("attention", attention);
    v("mlp", mlp);
    v("rms_norm_eps", rms_norm_eps);
  }
};

// Block: its recurrent block.
template <class Block>
class LinearAttentionLayer : public Operator {
 public:
  static constexpr int kLevel = 3;
  using Init = LinearAttentionLayerInit;

  // As of DecoderLayer.
  static constexpr std::array kArgs{in("positions"), in("hidden_states"), opt_in("residual"), out("out"),
                                    out("residual_out")};

  explicit LinearAttentionLayer(const Init& init) : init_(init) {}
  virtual void forward(Context& ctx, View positions, View hidden_states, OptView residual, View out,
                       View residual_out) = 0;

  static OutputSpecs outputs(const Init&, Args given) { return {given[1]->spec(), given[1]->spec()}; }
  static Inputs inputs(const Init& init, const Workload& w) {
    Inputs inputs = LinearAttentionBlock::inputs(init.attention, w);
    inputs.push_back(w.optional_inputs ? inputs[1] : std::nullopt);
    return inputs;
  }
  static Cost cost(const Init& init, const Workload& w) {
    return DecoderLayer::cost_of_blocks(init.attention.hidden_size, Block::cost(init.attention, w),
                                        MlpBlock::cost(init.mlp, w), w);
  }
  static Tolerance tolerance(const Init& init, DType dtype) {
    Tolerance t = composed_tolerance(dtype, static_cast<double>(init.mlp.intermediate_size));
    return {2 * t.relative, 4 * t.of_scale};
  }

 protected:
  const Init init_;
};

// T: the operator.
template <class T>
std::vector<Case<T>> linear_attention_layer_cases() {
  LinearAttentionLayerInit c{
      .attention = {.hidden_size = 64, .num_heads = 2, .num_kv_heads = 2, .head_k_dim = 16, .head_v_dim = 32},
      .mlp = {.hidden_size = 64, .intermediate_size = 176}};
  LinearAttentionLayerInit wide{
      .attention = {.hidden_size = 128, .num_heads = 4, .num_kv_heads = 2, .head_k_dim = 72, .head_v_dim = 40},
      .mlp = {.hidden_size = 128, .intermediate_size = 264, .bias = true}};
  wide.attention.gate_low_rank_dim = 9;
  wide.attention.clamp_min = -0.25;
  LinearAttentionLayerInit plain = c;
  plain.attention.use_output_gate = false;
  return {
      {"first layer", c, Workload::batch({{1, 20}, {9, 0}})},
      {"later layer", c, Workload::batch({{1, 33}, {4, 17}}, true)},
      {"first layer, decode, no gate", plain, Workload::batch({{1, 20}, {1, 3}, {1, 7}})},
      {"later layer, decode", wide, Workload::batch({{1, 33}}, true)},
      {"eight tokens of decoding and prompts", wide, Workload::batch({{1, 9}, {1, 2}, {1, 0}, {3, 0}, {2, 17}}, true)}};
}

// T: the operator; Block: its recurrent block.
template <class T, class Block>
class ComposedLinearAttentionLayer final : public T {
 public:
  ComposedLinearAttentionLayer(const LinearAttentionLayerInit& init, Builder& builder)
      : T(init),
        attn_(builder.child<Block>("attn", init.attention)),
        mlp_(builder.child<LlamaMLP>("mlp", init.mlp)),
        attn_norm_(builder.child<RMSNorm>("attn_norm", norm(init))),
        mlp_norm_(builder.child<RMSNorm>("mlp_norm", norm(init))) {}

  void forward(Context& ctx, View positions, View hidden_states, OptView residual, View out,
               View residual_out) override {
    auto [normed, sum] = attn_norm_(ctx, hidden_states, residual);
    View mixed = attn_(ctx, positions, normed);
    View ready = ctx.arena.make(mixed.spec());
    mlp_norm_.into(ctx, mixed, sum ? *sum : hidden_states, ready, residual_out);
    mlp_.into(ctx, ready, out);
  }

 private:
  static RMSNorm::Init norm(const LinearAttentionLayerInit& init) {
    return {.hidden_size = init.attention.hidden_size, .eps = init.rms_norm_eps, .dtype = init.attention.dtype};
  }

  Op<Block> attn_;
  Op<LlamaMLP> mlp_;
  Op<RMSNorm> attn_norm_;
  Op<RMSNorm> mlp_norm_;
};

}  // namespace fk
