// The layer of Qwen3-Next on CUDA for one token, in five launches: the norm with the first products of the delta net;
// what belongs to its heads; its output with the residual and the terms of the router's logits; the norm, the choice of
// experts, gate and up of these and of the shared one; down of all experts. With attention six: the norm with queries,
// gates, keys and values; norms of heads, rotation and store; attention and its gate; and the same three. Where the
// output's matrix does not fit, its launch is followed by one with the residual, the norm, the router and the shared
// expert's gate and up.
#include "ops/l3/qwen3_next_decoder_layer.h"

#include <optional>

#include "backend/cuda/experts/routed_output.h"
#include "backend/cuda/l2/attend.h"
#include "backend/cuda/l2/delta_net_launches.h"
#include "backend/cuda/l2/one_token_moe.h"
#include "backend/cuda/l2/rope_store.h"
#include "ops/l1/gemma_rms_norm.h"
#include "ops/register.h"

namespace fk::cuda {
namespace {

class StreamedQwen3NextLayer final : public Qwen3NextDecoderLayer {
 public:
  explicit StreamedQwen3NextLayer(const Init& init)
      : Qwen3NextDecoderLayer(init),
        moe_(init.moe),
        net_(init.linear),
        core_(AttentionBlock::core(init.attention)),
        attend_(core_) {
    if (!init_.is_linear() && rotates())
      frequencies_ = RotaryFrequencies::of(RotaryEmbedding::inverse_frequencies(AttentionBlock::rotary(init.attention)),
                                           init.attention.rope_scaling.attention_factor);
  }

  std::string_view refuse(Args args) const override {
    const View &x = *args[1], &out = *args[3], &residual_out = *args[4];
    if (x.size(0) != 1) return "its experts take one token";
    if (std::string_view why = refuse_init(); !why.empty()) return why;
    if (x.dtype() != attention().dtype) return "x must have the dtype of the weights";
    if (!x.rows_contiguous() || (args[2] && !args[2]->rows_contiguous()) || !residual_out.rows_contiguous())
      return "rows must be contiguous";
    if (!bound_) return {};  // refuse() may be called before weights are bound
    // Only the shapes of what lies between the launches matter here.
    auto nothing = [&](int64_t width) { return View(nullptr, Shape{1, width}, x.dtype(), x.device()); };
    const View row = nothing(x.size(1));
    if (std::string_view why = moe_.refuse(row, out); !why.empty()) return why;
    auto unsupported = [](const StreamGroup& group) { return stream_group_refusal(group); };
    std::string_view why = unsupported(feeding(row, row, residual_out, row, moe_.nothing(x.device())));
    if (why.empty() && init_.is_linear()) {
      const DeltaNetHeads heads = net_.heads(nothing);
      why = unsupported(projecting(x, args[2], row, heads));
      if (why.empty()) why = unsupported(output(heads.out, row));
    } else if (why.empty()) {
      why = unsupported(projecting(x, args[2], row, nothing(qkv_.size(0))));
      if (why.empty()) why = unsupported(output(nothing(queries_size()), row));
    }
    return why;
  }

  void bind_parts(const Operator::PartWeight& weight) override {
    if (!refuse_init().empty()) return;
    input_norm_ = weight("input_layernorm.weight");
    post_norm_ = weight("post_attention_layernorm.weight");
    moe_.bind(weight, "mlp.");
    if (init_.is_linear()) {
      net_.bind(weight, "linear_attn.");
    } else {
      qkv_ = weight("self_attn.qkv_proj.weight");
      o_proj_ = weight("self_attn.o_proj.weight");
      if (attention().bias) qkv_bias_ = weight("self_attn.qkv_proj.bias");
      if (attention().bias_o_proj) o_bias_ = weight("self_attn.o_proj.bias");
      q_norm_ = weight("self_attn.q_norm.weight");
      k_norm_ = weight("self_attn.k_norm.weight");
    }
    bound_ = true;
  }

  void forward(Context& ctx, View positions, View hidden_states, OptView residual, View out,
               View residual_out) override {
    auto make = [&](int64_t width) { return ctx.arena.make({{1, width}, hidden_states.dtype()}); };
    const int64_t D = hidden_states.size(1);
    const View sum = residual ? make(D) : hidden_states;
    const OneTokenMoe::Rows rows = moe_.make_rows(ctx.arena);
    const View mixed = init_.is_linear() ? run_net(ctx, hidden_states, residual, sum, rows, make)
                                         : run_attention(ctx, positions, hidden_states, residual, sum, rows, make);
    const RoutedOutput routed = routing(mixed, sum, residual_out, rows);
    if (routed_output_refusal(routed).empty()) {
      routed_output(routed, ctx.stream);
      moe_.run_experts(routed.to, rows, out, ctx.stream);
      return;
    }
    const View projected = make(D), ready = make(D);
    stream_group(output(mixed, projected), ctx.stream);
    stream_group(feeding(projected, sum, residual_out, ready, rows), ctx.stream);
    moe_.run_experts(ready, rows, out, ctx.stream);
  }

 private:
  const AttentionBlockInit& attention() const { return init_.attention; }
  int64_t queries_size() const { return core_.num_heads * core_.head_size; }
  bool rotates() const { return attention().head_dim % 2 == 0 && attention().head_dim <= kMaxRopeStoreHead; }

  std::string_view refuse_init() const {
    if (!init_.has_experts()) return "its feed-forward block has experts";
    if (std::string_view why = moe_.refuse(); !why.empty()) return why;
    if (init_.moe.dtype != attention().dtype) return "all weights must have the same dtype";
    if (init_.is_linear()) {
      if (init_.linear.dtype != attention().dtype) return "all weights must have the same dtype";
      return net_.refuse();
    }
    if (!rotates()) return "head_dim must be even and at most 512";
    if (!attention().is_neox_style) return "it rotates pairs that lie half of the rotated elements apart";
    return {};
  }

  // What the output's matrix multiplies.
  template <class Make>
  View run_net(Context& ctx, const View& x, const OptView& residual, const View& sum, const OneTokenMoe::Rows& rows,
               const Make& make) {
    DeltaNetHeads heads = net_.heads(make);
    heads.state = own_state(ctx, 0);
    heads.conv_state = own_state(ctx, 1);
    stream_group(clearing(projecting(x, residual, sum, heads), rows), ctx.stream);
    run_delta_net_heads(heads, *ctx.attention, ctx.stream);
    return heads.out;
  }

  template <class Make>
  View run_attention(Context& ctx, const View& positions, const View& x, const OptView& residual, const View& sum,
                     const OneTokenMoe::Rows& rows, const Make& make) {
    const int64_t H = core_.num_heads, Dh = core_.head_size;
    const View &key_cache = own_state(ctx, 0), &value_cache = own_state(ctx, 1);
    View all = make(qkv_.size(0)), attended = make(queries_size());
    stream_group(clearing(projecting(x, residual, sum, all), rows), ctx.stream);
    rope_store({.qkv = all,
                .query_gates = true,
                .q_out = {},
                .q_norm = q_norm_,
                .k_norm = k_norm_,
                .eps = attention().rms_norm_eps,
                .weight_offset = GemmaRMSNorm::kWeightOffset,
                .positions = positions,
                .slot_mapping = ctx.attention->slot_mapping,
                .key_cache = key_cache,
                .value_cache = value_cache,
                .num_heads = H,
                .num_kv_heads = core_.num_kv_heads,
                .head_size = Dh,
                .frequencies = frequencies_},
               ctx.stream);
    View queries = all.narrow(1, 0, 2 * queries_size()).split_last(H, 2 * Dh);  // each head: query, gate
    attend_.run(ctx, queries.narrow(2, 0, Dh), key_cache, value_cache, attended.split_last(H, Dh),
                queries.narrow(2, Dh, Dh));
    return attended;
  }

  RmsNormRows normed(const View& x, const OptView& residual, const OptView& sum, const View& weight) const {
    return {.x = x,
            .residual = residual,
            .weight = weight,
            .weight_offset = GemmaRMSNorm::kWeightOffset,
            .eps = init_.rms_norm_eps,
            .sum_out = residual ? sum : OptView()};
  }

  StreamGroup projecting(const View& x, const OptView& residual, const View& sum, const DeltaNetHeads& heads) const {
    StreamGroup group;
    group.prologue = normed(x, residual, sum, input_norm_);
    net_.add_products(group, heads, {});
    return group;
  }

  StreamGroup projecting(const View& x, const OptView& residual, const View& sum, const View& all) const {
    StreamGroup group;
    group.prologue = normed(x, residual, sum, input_norm_);
    group.products.add({.weight = qkv_, .out = all, .bias = qkv_bias_});
    return group;
  }

  static StreamGroup clearing(StreamGroup group, const OneTokenMoe::Rows& rows) {
    group.cleared = rows.sums;
    return group;
  }

  const View& output_weight() const { return init_.is_linear() ? net_.output_weight() : o_proj_; }
  OptView output_bias() const { return init_.is_linear() ? OptView() : o_bias_; }

  StreamGroup output(const View& mixed, const View& projected) const {
    StreamGroup group;
    group.products.add({.weight = output_weight(), .out = projected, .bias = output_bias(), .x = mixed});
    return group;
  }

  // The same with the residual stream and the terms of the router.
  RoutedOutput routing(const View& mixed, const View& sum, const View& residual_out,
                       const OneTokenMoe::Rows& rows) const {
    const OptView bias = output_bias();
    return moe_.routing({.x = mixed.data(),
                         .weight = output_weight().data(),
                         .bias = bias ? bias->data() : nullptr,
                         .residual = sum.data(),
                         .length = static_cast<int>(mixed.size(1))},
                        {.stream = residual_out.data(),
                         .norm = post_norm_.data(),
                         .norm_offset = static_cast<float>(GemmaRMSNorm::kWeightOffset),
                         .eps = static_cast<float>(init_.rms_norm_eps)},
                        rows);
  }

  StreamGroup feeding(const View& mixed, const View& sum, const View& residual_out, const View& ready,
                      const OneTokenMoe::Rows& rows) const {
    StreamGroup group;
    RmsNormRows norm = normed(mixed, sum, residual_out, post_norm_);
    norm.normed_out = ready;
    group.prologue = norm;
    moe_.add_products(group, rows, {});
    return group;
  }

  OneTokenMoe moe_;
  DeltaNetLaunches net_;
  const Attention::Init core_;
  RotaryFrequencies frequencies_{};
  Attend attend_;
  bool bound_ = false;
  View input_norm_, post_norm_;
  // Of layers with attention.
  View qkv_, o_proj_, q_norm_, k_norm_;
  OptView qkv_bias_, o_bias_;
};

FK_FUSED_IMPLEMENTATION(Qwen3NextDecoderLayer, StreamedQwen3NextLayer, "cuda.stream_groups", DeviceKind::kCuda, 100,
                        nullptr);

}  // namespace
}  // namespace fk::cuda
