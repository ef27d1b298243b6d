// A layer of RWKV 7 on CUDA for few tokens, in five launches: the norm, the mixtures and all products of them; what
// belongs to heads; the output; the same for the feed-forward block, which has two products.
#include "ops/l3/rwkv7_block.h"

#include "backend/cuda/matmul/stream_group.h"
#include "backend/cuda/recurrence/rwkv7_heads.h"
#include "ops/register.h"

namespace fk::cuda {
namespace {

class StreamedRWKV7Block final : public RWKV7Block {
 public:
  using RWKV7Block::RWKV7Block;

  std::string_view refuse(Args args) const override {
    const View& x = *args[0];
    if (!x.rows_contiguous()) return "rows must be contiguous";
    if (x.dtype() != init_.attention.dtype) return "x must have the dtype of the weights";
    if (!bound_) return {};  // refuse() may be called before weights are bound
    // Only the shapes of what lies between the launches matter here.
    const View nothing(nullptr, x.spec(), x.device());
    View low(nullptr, Shape{x.size(0), low_rank()}, x.dtype(), x.device());
    const Rwkv7Heads heads = heads_call({}, nothing, nothing, nothing, low, args[2], nothing);
    if (std::string_view why = refuse_rwkv7_heads(heads, init_.attention.head_dim); !why.empty()) return why;
    const AttentionMetadata no_batch;
    const std::array groups = {
        mixing(no_batch, {}, x, args[1], nothing, nothing, nothing, nothing, low, nothing),
        output(no_batch, {}, nothing, nothing, nothing),
        feeding(no_batch, {}, nothing, nothing, *args[4], between(x, nullptr), nothing),
        closing(no_batch, {}, between(x, nullptr), nothing, *args[3]),
    };
    for (const StreamGroup& group : groups)
      if (std::string_view why = stream_group_refusal(group); !why.empty()) return why;
    return {};
  }

  void bind_parts(const Operator::PartWeight& weight) override {
    const RWKV7Attention::Init& c = init_.attention;
    auto norm = [&](Norm& to, const std::string& name) {
      to.weight = weight(name + ".weight");
      if (init_.norm_bias) to.bias = weight(name + ".bias");
    };
    if (init_.pre_norm) {
      Norm pre;
      norm(pre, "pre_norm");
      pre_weight_ = pre.weight;
      pre_bias_ = pre.bias;
    }
    norm(attn_norm_, "attn_norm");
    norm(ffn_norm_, "ffn_norm");
    auto flat = [&](std::string_view name) {
      View v = weight(name);
      return v.reshape({v.numel()});
    };
    r_ = {weight("attn.r_proj.weight"), flat("attn.x_r")};
    k_ = {weight("attn.k_proj.weight"), flat("attn.x_k")};
    v_ = {weight("attn.v_proj.weight"), flat("attn.x_v")};
    // The value gate is computed from the mixture of the values.
    constexpr std::array kPairs{"w", "a", "g", "v"};
    for (size_t i = 0; i < kPairs.size(); ++i) {
      if (i == 3 && c.first_layer) continue;
      const std::string name = std::string("attn.") + kPairs[i] + "_lora.lora.";
      down_[i] = {weight(name + "0.weight"), flat(std::string("attn.x_") + kPairs[i])};
      up_[i].weight = weight(name + "2.weight");
      if (i != 2) up_[i].bias = weight(name + "2.bias");
    }
    k_k_ = flat("attn.k_k");
    k_a_ = flat("attn.k_a");
    r_k_ = flat("attn.r_k");
    g_norm_ = {weight("attn.g_norm.weight"), weight("attn.g_norm.bias")};
    o_proj_ = weight("attn.o_proj.weight");
    key_ = {weight("ffn.key.weight"), flat("ffn.x_k")};
    value_ = weight("ffn.value.weight");
    bound_ = true;
  }

  void forward(Context& ctx, View hidden_states, OptView residual, OptView v_first, View out, View residual_out,
               OptView v_first_out) override {
    const AttentionMetadata& batch = *ctx.attention;
    const View &state = own_state(ctx, 0), &attn_shift = own_state(ctx, 1), &ffn_shift = own_state(ctx, 2);
    const TensorSpec row = hidden_states.spec();
    auto make = [&] { return ctx.arena.make(row); };
    View now = make(), r = make(), k = make(), v = v_first_out ? *v_first_out : make(), gated = make();
    View low = ctx.arena.make({{hidden_states.size(0), low_rank()}, row.dtype});
    View sum = residual || init_.pre_norm ? make() : hidden_states;

    stream_group(mixing(batch, attn_shift, hidden_states, residual, sum, r, k, v, low, now), ctx.stream);
    run_rwkv7_heads(heads_call(state, r, k, v, low, v_first, gated), batch, ctx.stream);
    View mixed = make();
    stream_group(output(batch, attn_shift, gated, now, mixed), ctx.stream);
    View ready = make(), wide = ctx.arena.make(between(hidden_states, nullptr).spec());
    stream_group(feeding(batch, ffn_shift, mixed, sum, residual_out, wide, ready), ctx.stream);
    stream_group(closing(batch, ffn_shift, wide, ready, out), ctx.stream);
  }

 private:
  struct Norm {
    View weight;
    OptView bias;
  };
  // A matrix and the weight of the mixture it multiplies.
  struct Mixed {
    View weight, mixture;
  };

  int64_t low_rank() const {
    int64_t rank = 0;
    for (const LowRankUp& up : up_) rank += up.rank();
    return rank;
  }

  View between(const View& x, void* at) const {
    return View(at, Shape{x.size(0), init_.mlp.intermediate_size}, x.dtype(), x.device());
  }

  StreamGroup mixing(const AttentionMetadata& batch, const View& state, const View& x, const OptView& residual,
                     const View& sum, const View& r, const View& k, const View& v, const View& low,
                     const View& now) const {
    StreamGroup group;
    group.prologue = ShiftedRows{.x = x,
                                 .residual = residual,
                                 .pre_weight = pre_weight_,
                                 .pre_bias = pre_bias_,
                                 .weight = attn_norm_.weight,
                                 .bias = attn_norm_.bias,
                                 .eps = init_.norm_eps,
                                 .sum_out = residual || pre_weight_ ? OptView(sum) : OptView(),
                                 .before = {state, &batch},
                                 .now = now};
    auto add = [&](const Mixed& mixed, const View& to, GroupActivation activation) {
      group.products.add({.weight = mixed.weight, .out = to, .activation = activation, .mixture = mixed.mixture});
    };
    add(r_, r, GroupActivation::kNone);
    add(k_, k, GroupActivation::kNone);
    add(v_, v, GroupActivation::kNone);
    constexpr std::array kActivations{GroupActivation::kTanh, GroupActivation::kNone, GroupActivation::kSigmoid,
                                      GroupActivation::kNone};
    int64_t first = 0;
    for (size_t i = 0; i < up_.size(); ++i) {
      if (!up_[i].weight) continue;
      add(down_[i], low.narrow(1, first, up_[i].rank()), kActivations[i]);
      first += up_[i].rank();
    }
    return group;
  }

  Rwkv7Heads heads_call(const View& state, const View& r, const View& k, const View& v, const View& low,
                        const OptView& v_first, const View& gated) const {
    return {.r = r,
            .k = k,
            .v = v,
            .low = low,
            .v_first = up_[3].weight ? v_first : OptView(),
            .up = up_,
            .k_k = k_k_,
            .k_a = k_a_,
            .r_k = r_k_,
            .norm_weight = g_norm_.weight,
            .norm_bias = g_norm_.bias,
            .state = state,
            .out = gated,
            // As of the composition: F.normalize raises norms below 1e-12 to that.
            .key_eps = init_.attention.fuse_norm ? 1e-6 : 1e-24,
            .norm_eps = static_cast<double>(init_.attention.head_dim) * init_.attention.norm_eps};
  }

  StreamGroup output(const AttentionMetadata& batch, const View& state, const View& gated, const View& now,
                     const View& mixed) const {
    StreamGroup group;
    group.products.add({.weight = o_proj_, .out = mixed, .x = gated});
    group.stored = now;
    group.store = {state, &batch};
    return group;
  }

  StreamGroup feeding(const AttentionMetadata& batch, const View& state, const View& mixed, const View& sum,
                      const View& residual_out, const View& wide, const View& ready) const {
    StreamGroup group;
    group.prologue = ShiftedRows{.x = mixed,
                                 .residual = sum,
                                 .weight = ffn_norm_.weight,
                                 .bias = ffn_norm_.bias,
                                 .eps = init_.norm_eps,
                                 .sum_out = residual_out,
                                 .before = {state, &batch},
                                 .now = ready};
    group.products.add(
        {.weight = key_.weight, .out = wide, .activation = GroupActivation::kRelu2, .mixture = key_.mixture});
    return group;
  }

  StreamGroup closing(const AttentionMetadata& batch, const View& state, const View& wide, const View& ready,
                      const View& out) const {
    StreamGroup group;
    group.products.add({.weight = value_, .out = out, .x = wide});
    group.stored = ready;
    group.store = {state, &batch};
    return group;
  }

  bool bound_ = false;
  OptView pre_weight_, pre_bias_;
  Norm attn_norm_, ffn_norm_, g_norm_;
  Mixed r_, k_, v_, key_;
  std::array<Mixed, 4> down_;
  std::array<LowRankUp, 4> up_;
  View k_k_, k_a_, r_k_, o_proj_, value_;
};

FK_FUSED_IMPLEMENTATION(RWKV7Block, StreamedRWKV7Block, "cuda.stream_groups", DeviceKind::kCuda, 100, nullptr);

}  // namespace
}  // namespace fk::cuda
