// The layers of GLA and RetNet on CUDA for few tokens, in five launches: a norm with all projections, the recurrence,
// the norm of heads with the output, a norm with gate and up, down.
#include "ops/l3/linear_attention_layer.h"

#include <cmath>
#include <limits>

#include "backend/cuda/matmul/stream_group.h"
#include "backend/cuda/recurrence/linear_attention_heads.h"
#include "ops/l1/rotary_emb.h"
#include "ops/l3/gla_block.h"
#include "ops/l3/ret_net_block.h"
#include "ops/register.h"

namespace fk::cuda {
namespace {

// T: the operator; kRetention: its heads decay at fixed rates, else the decays come from a low-rank pair.
template <class T, bool kRetention>
class StreamedLinearAttentionLayer final : public T {
 public:
  explicit StreamedLinearAttentionLayer(const LinearAttentionLayerInit& init)
      : T(init), recurrence_(LinearAttentionBlock::recurrence(init.attention)) {
    if (kRetention && rotates())
      frequencies_ = RotaryFrequencies::of(
          RotaryEmbedding::inverse_frequencies({.head_size = attention().head_k_dim,
                                                .rotary_dim = attention().head_k_dim,
                                                .max_position_embeddings = attention().max_position,
                                                .dtype = attention().dtype}));
  }

  std::string_view refuse(Args args) const override {
    const View& x = *args[1];
    if (!x.rows_contiguous()) return "rows must be contiguous";
    if (x.dtype() != attention().dtype) return "x must have the dtype of the weights";
    if (!attention().weight_format.empty() || !this->init_.mlp.weight_format.empty())
      return "it reads weights of the dtype it computes in";
    if (attention().tp_size > 1 || this->init_.mlp.tp_size > 1) return "it does not add up ranks";
    if (kRetention && !rotates()) return "heads must have an even number of keys, at most 512";
    if (std::string_view why = refuse_linear_attention_heads(attention().head_k_dim, attention().head_v_dim);
        !why.empty())
      return why;
    if (!bound_) return {};  // refuse() may be called before weights are bound
    // Only the shapes of what lies between the launches matter here.
    auto nothing = [&](int64_t width) { return View(nullptr, Shape{x.size(0), width}, x.dtype(), x.device()); };
    const View row = nothing(x.size(1)), all = nothing(qkvg_.size(0));
    const std::array groups = {
        projecting(x, args[2], row, all, nothing(attention().gate_low_rank_dim)),
        output(View(nullptr, Shape{x.size(0), heads_size()}, DType::kF32, x.device()),
               View(nullptr, squares_shape(x.size(0)), DType::kF32, x.device()), row),
        feeding(row, row, *args[4], nothing(this->init_.mlp.intermediate_size)),
        closing(nothing(this->init_.mlp.intermediate_size), *args[3]),
    };
    for (const StreamGroup& group : groups)
      if (std::string_view why = stream_group_refusal(group); !why.empty()) return why;
    return {};
  }

  void bind_parts(const Operator::PartWeight& weight) override {
    if (!attention().weight_format.empty() || !this->init_.mlp.weight_format.empty()) return;
    const bool gate = attention().use_output_gate;
    attn_norm_ = weight("attn_norm.weight");
    mlp_norm_ = weight("mlp_norm.weight");
    qkvg_ = weight(gate ? "attn.qkvg_proj.weight" : "attn.qkv_proj.weight");
    if constexpr (!kRetention) {
      low_ = weight("attn.gk_proj.0.weight");
      up_ = weight("attn.gk_proj.1.weight");
      up_bias_ = weight("attn.gk_proj.1.bias");
    }
    g_norm_ = weight(gate && attention().fuse_norm ? "attn.g_norm_swish_gate.weight" : "attn.g_norm.weight");
    o_proj_ = weight("attn.o_proj.weight");
    gate_up_ = weight("mlp.gate_up_proj.weight");
    down_ = weight("mlp.down_proj.weight");
    if (this->init_.mlp.bias) {
      gate_up_bias_ = weight("mlp.gate_up_proj.bias");
      down_bias_ = weight("mlp.down_proj.bias");
    }
    bound_ = true;
  }

  void forward(Context& ctx, View positions, View hidden_states, OptView residual, View out,
               View residual_out) override {
    auto make = [&](int64_t width) { return ctx.arena.make({{hidden_states.size(0), width}, hidden_states.dtype()}); };
    const LinearRecurrenceInit& r = recurrence_;
    const int64_t D = hidden_states.size(1), q_size = r.num_heads * r.head_k_dim, k_size = r.k_heads() * r.head_k_dim,
                  v_size = r.v_heads() * r.head_v_dim;
    View sum = residual ? make(D) : hidden_states, all = make(qkvg_.size(0)), low;
    if (!kRetention) low = make(attention().gate_low_rank_dim);
    stream_group(projecting(hidden_states, residual, sum, all, low), ctx.stream);

    LinearAttentionHeads heads{.q = all.narrow(1, 0, q_size),
                               .k = all.narrow(1, q_size, k_size),
                               .v = all.narrow(1, q_size + k_size, v_size),
                               .state = this->own_state(ctx, 0),
                               .norm_weight = g_norm_,
                               .out = ctx.arena.make({{hidden_states.size(0), heads_size()}, DType::kF32}),
                               .squares = ctx.arena.make({squares_shape(hidden_states.size(0)), DType::kF32}),
                               .scale = r.scale != 0 ? r.scale : 1 / std::sqrt(static_cast<double>(r.head_k_dim))};
    if (attention().use_output_gate) heads.gate = all.narrow(1, all.size(1) - heads_size(), heads_size());
    if constexpr (kRetention) {
      heads.positions = positions;
      heads.frequencies = &frequencies_;
      heads.first_head = r.first_head;
    } else {
      heads.low = low;
      heads.up = up_;
      heads.up_bias = up_bias_;
      heads.factor = 1 / attention().gate_logit_normalizer;
      heads.least = attention().clamp_min < 0 ? attention().clamp_min : -std::numeric_limits<double>::infinity();
    }
    run_linear_attention_heads(heads, *ctx.attention, ctx.stream);
    View mixed = make(D), wide = make(this->init_.mlp.intermediate_size);
    stream_group(output(heads.out, heads.squares, mixed), ctx.stream);
    stream_group(feeding(mixed, sum, residual_out, wide), ctx.stream);
    stream_group(closing(wide, out), ctx.stream);
  }

 private:
  const LinearAttentionInit& attention() const { return this->init_.attention; }
  bool rotates() const { return attention().head_k_dim % 2 == 0 && attention().head_k_dim <= 2 * kMaxRotaryPairs; }
  int64_t heads_size() const { return recurrence_.num_heads * recurrence_.head_v_dim; }
  Shape squares_shape(int64_t tokens) const {
    return {tokens, recurrence_.num_heads, linear_attention_parts(recurrence_.head_v_dim)};
  }

  StreamGroup projecting(const View& x, const OptView& residual, const View& sum, const View& all,
                         const View& low) const {
    StreamGroup group;
    group.prologue = RmsNormRows{.x = x,
                                 .residual = residual,
                                 .weight = attn_norm_,
                                 .eps = this->init_.rms_norm_eps,
                                 .sum_out = residual ? OptView(sum) : OptView()};
    group.products.add({.weight = qkvg_, .out = all});
    if (!kRetention) group.products.add({.weight = low_, .out = low});
    return group;
  }

  StreamGroup output(const View& mixed, const View& squares, const View& out) const {
    StreamGroup group;
    group.prologue = HeadNormRows{.x = mixed, .squares = squares, .eps = attention().norm_eps};
    group.products.add({.weight = o_proj_, .out = out});
    return group;
  }

  StreamGroup feeding(const View& mixed, const View& sum, const View& residual_out, const View& wide) const {
    StreamGroup group;
    group.prologue = RmsNormRows{
        .x = mixed, .residual = sum, .weight = mlp_norm_, .eps = this->init_.rms_norm_eps, .sum_out = residual_out};
    group.products.add(
        {.weight = gate_up_, .out = wide, .activation = GroupActivation::kSiluAndMul, .bias = gate_up_bias_});
    return group;
  }

  StreamGroup closing(const View& wide, const View& out) const {
    StreamGroup group;
    group.products.add({.weight = down_, .out = out, .bias = down_bias_, .x = wide});
    return group;
  }

  const LinearRecurrenceInit recurrence_;
  RotaryFrequencies frequencies_{};
  bool bound_ = false;
  View attn_norm_, mlp_norm_, qkvg_, low_, up_, up_bias_, g_norm_, o_proj_, gate_up_, down_;
  OptView gate_up_bias_, down_bias_;
};

using StreamedGLABlock = StreamedLinearAttentionLayer<GLABlock, false>;
using StreamedRetNetBlock = StreamedLinearAttentionLayer<RetNetBlock, true>;

FK_FUSED_IMPLEMENTATION(GLABlock, StreamedGLABlock, "cuda.stream_groups", DeviceKind::kCuda, 100, nullptr);
FK_FUSED_IMPLEMENTATION(RetNetBlock, StreamedRetNetBlock, "cuda.stream_groups", DeviceKind::kCuda, 100, nullptr);

}  // namespace
}  // namespace fk::cuda
