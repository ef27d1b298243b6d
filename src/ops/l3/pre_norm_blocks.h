// What compositions of pre-norm layers have in common: the order of norms, blocks and residual, and a feed-forward
// block that is dense on some layers and has experts on others.
#pragma once

#include <optional>
#include <string_view>

#include "ops/l2/llama_mlp.h"
#include "ops/op.h"

namespace fk {

template <class Norm>
class PreNormBlocks {
 public:
  // layer: the arguments of the layer, with `attention` and rms_norm_eps.
  template <class Init>
  PreNormBlocks(const Init& layer, Builder& builder)
      : input_layernorm_(builder.child<Norm>("input_layernorm", norm(layer))),
        post_attention_layernorm_(builder.child<Norm>("post_attention_layernorm", norm(layer))) {}

  // mix(normed) gives the mixed tokens; feed(ready) writes the output of the layer.
  template <class Mix, class Feed>
  void run(Context& ctx, const View& hidden_states, const OptView& residual, const View& residual_out, const Mix& mix,
           const Feed& feed) const {
    auto [normed, sum] = input_layernorm_(ctx, hidden_states, residual);
    View mixed = mix(normed);
    View ready = ctx.arena.make(mixed.spec());
    post_attention_layernorm_.into(ctx, mixed, sum ? *sum : hidden_states, ready, residual_out);
    feed(ready);
  }

 private:
  template <class Init>
  static typename Norm::Init norm(const Init& layer) {
    return {.hidden_size = layer.attention.hidden_size, .eps = layer.rms_norm_eps, .dtype = layer.attention.dtype};
  }

  Op<Norm> input_layernorm_, post_attention_layernorm_;
};

// The dense block or the experts of a layer, whose Init has `mlp`, `moe` and has_experts().
template <class Experts>
class MlpOrExperts {
 public:
  // The names of both in checkpoints.
  struct Names {
    std::string_view mlp = "mlp", experts = "mlp";
  };

  template <class Init>
  MlpOrExperts(const Init& init, Builder& builder, const Names& names) {
    if (init.has_experts())
      experts_.emplace(builder.child<Experts>(names.experts, init.moe));
    else
      mlp_.emplace(builder.child<LlamaMLP>(names.mlp, init.mlp));
  }

  void into(Context& ctx, const View& x, const View& out) const {
    if (experts_)
      experts_->into(ctx, x, out);
    else
      mlp_->into(ctx, x, out);
  }

 private:
  std::optional<Op<Experts>> experts_;
  std::optional<Op<LlamaMLP>> mlp_;
};

}  // namespace fk
