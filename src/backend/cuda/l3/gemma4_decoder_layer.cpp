// The layer of Gemma 4 on CUDA for one token, in eight launches: the norm with queries, keys and values; their norms,
// rotation and store; attention; the output; its norm, the residual and the norms before the blocks with gate and up of
// the feed-forward block and the router's logits; the choice of experts with their gate and up; down of both blocks;
// the norms after them. Layers without experts take a few tokens.
#include "ops/l3/gemma4_decoder_layer.h"

#include <cmath>

#include "backend/cuda/experts/one_token.h"
#include "backend/cuda/l2/attend.h"
#include "backend/cuda/l2/rope_store.h"
#include "backend/cuda/l3/gemma4_closing.h"
#include "backend/cuda/matmul/matmul.h"
#include "backend/cuda/matmul/stream_group.h"
#include "ops/register.h"

namespace fk::cuda {
namespace {

class StreamedGemma4Layer final : public Gemma4DecoderLayer {
 public:
  explicit StreamedGemma4Layer(const Init& init)
      : Gemma4DecoderLayer(init), core_(AttentionBlock::core(init.attention)), attend_(core_) {
    if (rotates())
      frequencies_ = RotaryFrequencies::of(RotaryEmbedding::inverse_frequencies(AttentionBlock::rotary(init.attention)),
                                           init.attention.rope_scaling.attention_factor);
  }

  std::string_view refuse(Args args) const override {
    const View &x = *args[1], &out = *args[2];
    if (init_.has_experts() && x.size(0) != 1) return "its experts take one token";
    if (x.size(0) == 0) return "there are no tokens";
    if (std::string_view why = refuse_init(); !why.empty()) return why;
    if (!x.rows_contiguous() || !out.rows_contiguous()) return "rows must be contiguous";
    if (x.dtype() != attention().dtype) return "x must have the dtype of the weights";
    if (!bound_) return {};  // refuse() may be called before weights are bound
    // Only the shapes of what lies between the launches matter here.
    auto nothing = [&](int64_t width, DType dtype) {
      return View(nullptr, Shape{x.size(0), width}, dtype, x.device());
    };
    const View row = nothing(x.size(1), x.dtype()), wide = nothing(init_.mlp.intermediate_size, x.dtype()),
               logits = nothing(init_.moe.num_experts, DType::kF32);
    const std::array groups = {projecting(x, nothing(qkv_.size(0), x.dtype())), feeding(row, x, row, wide, logits, row),
                               down(wide, row)};
    for (const StreamGroup& group : groups)
      if (std::string_view why = stream_group_refusal(group); !why.empty()) return why;
    if (init_.has_experts())
      if (std::string_view why = one_token_experts_refusal(experts_call(row, logits, {}, row, wide, row)); !why.empty())
        return why;
    return gemma4_closing_refusal(closing(row, row, row, out));
  }

  void bind_parts(const Operator::PartWeight& weight) override {
    if (!refuse_init().empty()) return;
    const std::string projection = attention().k_eq_v ? "self_attn.qk_proj" : "self_attn.qkv_proj";
    qkv_ = weight(projection + ".weight");
    o_proj_ = weight("self_attn.o_proj.weight");
    if (attention().bias) qkv_bias_ = weight(projection + ".bias");
    if (attention().bias_o_proj) o_bias_ = weight("self_attn.o_proj.bias");
    q_norm_ = weight("self_attn.q_norm.weight");
    k_norm_ = weight("self_attn.k_norm.weight");
    gate_up_ = weight("mlp.gate_up_proj.weight");
    down_ = weight("mlp.down_proj.weight");
    input_norm_ = weight("input_layernorm.weight");
    post_attention_norm_ = weight("post_attention_layernorm.weight");
    mlp_norm_ = weight("pre_feedforward_layernorm.weight");
    closing_norm_ = weight("post_feedforward_layernorm.weight");
    scalar_ = weight("layer_scalar.weight");
    if (init_.has_experts()) {
      router_norm_ = weight("moe.router.norm.weight");
      router_ = weight("moe.router.proj.weight");
      expert_scale_ = weight("moe.router.scale_weights.weight");
      expert_gate_up_ = weight("moe.experts.w13.weight");
      expert_down_ = weight("moe.experts.w2.weight");
      experts_norm_ = weight("pre_feedforward_layernorm_2.weight");
      mlp_post_norm_ = weight("post_feedforward_layernorm_1.weight");
      experts_post_norm_ = weight("post_feedforward_layernorm_2.weight");
    }
    bound_ = true;
  }

  void forward(Context& ctx, View positions, View hidden_states, View out) override {
    auto make = [&](int64_t width) { return ctx.arena.make({{hidden_states.size(0), width}, hidden_states.dtype()}); };
    const int64_t D = hidden_states.size(1), H = core_.num_heads, Dh = core_.head_size;
    const View &key_cache = own_state(ctx, 0), &value_cache = own_state(ctx, 1);
    View all = make(qkv_.size(0)), attended = make(queries_size());
    stream_group(projecting(hidden_states, all), ctx.stream);
    rope_store({.qkv = all,
                .values_are_keys = attention().k_eq_v,
                .value_norm = true,
                .q_out = {},
                .q_norm = q_norm_,
                .k_norm = k_norm_,
                .eps = attention().rms_norm_eps,
                .positions = positions,
                .slot_mapping = ctx.attention->slot_mapping,
                .key_cache = key_cache,
                .value_cache = value_cache,
                .num_heads = H,
                .num_kv_heads = core_.num_kv_heads,
                .head_size = Dh,
                .frequencies = frequencies_},
               ctx.stream);
    attend_.run(ctx, all.narrow(1, 0, queries_size()).split_last(H, Dh), key_cache, value_cache,
                attended.split_last(H, Dh));
    View mixed = make(D), sum = make(D), wide = make(init_.mlp.intermediate_size), of_mlp = make(D);
    o_product_.run(ctx, attended, o_proj_, o_bias_ ? o_bias_->data() : nullptr, mixed);
    if (!init_.has_experts()) {
      stream_group(feeding(mixed, hidden_states, sum, wide, {}, {}), ctx.stream);
      stream_group(down(wide, of_mlp), ctx.stream);
      return gemma4_closing(closing(of_mlp, {}, sum, out), ctx.stream);
    }
    View logits = ctx.arena.make({{hidden_states.size(0), init_.moe.num_experts}, DType::kF32});
    View expert_rows = make(D), of_experts = make(D),
         between = ctx.arena.make({{init_.moe.top_k, init_.moe.intermediate_size}, hidden_states.dtype()});
    stream_group(feeding(mixed, hidden_states, sum, wide, logits, expert_rows), ctx.stream);
    OneTokenExperts experts = experts_call(expert_rows, logits, between, of_experts, wide, of_mlp);
    run_one_token_experts(experts, ctx.stream);
    gemma4_closing(closing(of_mlp, of_experts, sum, out), ctx.stream);
  }

 private:
  const Gemma4AttentionInit& attention() const { return init_.attention; }
  int64_t queries_size() const { return core_.num_heads * core_.head_size; }
  bool rotates() const { return attention().head_dim % 2 == 0 && attention().head_dim <= kMaxRopeStoreHead; }

  std::string_view refuse_init() const {
    if (attention().tp_size > 1 || init_.mlp.tp_size > 1 || init_.moe.tp_size > 1) return "it does not add up ranks";
    if (!attention().weight_format.empty() || !init_.mlp.weight_format.empty())
      return "it reads weights of the dtype it computes in";
    const DType dtype = attention().dtype;
    if (init_.mlp.dtype != dtype || (init_.has_experts() && init_.moe.dtype != dtype))
      return "all weights must have the same dtype";
    if (!rotates()) return "head_dim must be even and at most 512";
    if ((attention().rotary_dim > 0 && attention().rotary_dim != attention().head_dim) || !attention().is_neox_style)
      return "it rotates whole heads, in pairs that lie half a head apart";
    if (init_.mlp.bias) return "its feed-forward block has no bias";
    if (init_.has_experts() && init_.moe.rms_norm_eps != init_.rms_norm_eps)
      return "the router's norm must have the eps of the others";
    return {};
  }

  StreamGroup projecting(const View& x, const View& all) const {
    StreamGroup group;
    group.prologue = RmsNormRows{.x = x, .weight = input_norm_, .eps = init_.rms_norm_eps};
    group.products.add({.weight = qkv_, .out = all, .bias = qkv_bias_});
    return group;
  }

  StreamGroup feeding(const View& mixed, const View& residual, const View& sum, const View& wide, const View& logits,
                      const View& expert_rows) const {
    StreamGroup group;
    PostNormRows rows{.x = mixed,
                      .post_weight = post_attention_norm_,
                      .residual = residual,
                      .weight = mlp_norm_,
                      .eps = init_.rms_norm_eps,
                      .sum_out = sum};
    if (init_.has_experts()) {
      rows.second_weight = experts_norm_;
      rows.second_out = expert_rows;
      group.products.add({.weight = router_, .out = logits, .mixture = router_norm_});
    }
    group.products.add({.weight = gate_up_, .out = wide, .activation = GroupActivation::kGeluTanhAndMul});
    group.prologue = rows;
    return group;
  }

  StreamGroup down(const View& wide, const View& of_mlp) const {
    StreamGroup group;
    group.products.add({.weight = down_, .out = of_mlp, .x = wide});
    return group;
  }

  OneTokenExperts experts_call(const View& x, const View& logits, const View& between, const View& out,
                               const View& wide, const View& of_mlp) const {
    return {.x = x.data(),
            .gate_up = expert_gate_up_.data(),
            .down = expert_down_.data(),
            .between = between.data(),
            .out = out.data(),
            .experts = static_cast<int>(init_.moe.num_experts),
            .top_k = static_cast<int>(init_.moe.top_k),
            .hidden = static_cast<int>(init_.moe.hidden_size),
            .features = static_cast<int>(init_.moe.intermediate_size),
            .gate = ExpertGate::kGeluTanh,
            .dtype = attention().dtype,
            .routed = true,
            .logits = static_cast<const float*>(logits.data()),
            .logit_scale = static_cast<float>(1 / std::sqrt(static_cast<double>(init_.moe.hidden_size))),
            .expert_scale = expert_scale_.data(),
            .dense_between = wide.data(),
            .dense_down = down_.data(),
            .dense_out = of_mlp.data(),
            .dense_features = static_cast<int>(init_.mlp.intermediate_size)};
  }

  Gemma4Closing closing(const View& of_mlp, const OptView& of_experts, const View& sum, const View& out) const {
    Gemma4Closing call{.mlp = of_mlp,
                       .norm = closing_norm_,
                       .eps = init_.rms_norm_eps,
                       .residual = sum,
                       .scalar = scalar_,
                       .out = out};
    if (init_.has_experts()) {
      call.experts = of_experts;
      call.mlp_norm = mlp_post_norm_;
      call.experts_norm = experts_post_norm_;
    }
    return call;
  }

  const Attention::Init core_;
  RotaryFrequencies frequencies_{};
  Attend attend_;
  Matmul o_product_;
  bool bound_ = false;
  View qkv_, o_proj_, q_norm_, k_norm_, gate_up_, down_, scalar_;
  View input_norm_, post_attention_norm_, mlp_norm_, closing_norm_;
  OptView qkv_bias_, o_bias_;
  // Of layers with experts.
  View router_norm_, router_, expert_scale_, expert_gate_up_, expert_down_, experts_norm_, mlp_post_norm_,
      experts_post_norm_;
};

FK_FUSED_IMPLEMENTATION(Gemma4DecoderLayer, StreamedGemma4Layer, "cuda.stream_groups", DeviceKind::kCuda, 100, nullptr);

}  // namespace
}  // namespace fk::cuda
