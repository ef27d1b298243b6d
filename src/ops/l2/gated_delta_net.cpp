#include "ops/l2/gated_delta_net.h"

#include "ops/l1/chunk_gated_delta_rule.h"
#include "ops/l1/fused_gdn_gating.h"
#include "ops/l1/fused_qkvz_split_reshape_cat.h"
#include "ops/l1/fused_recurrent_gated_delta_rule.h"
#include "ops/l1/l2_norm.h"
#include "ops/l1/rms_norm_gated.h"
#include "ops/l2/batched_recurrence.h"
#include "ops/l2/replicated_linear.h"
#include "ops/register.h"

namespace fk {

LinearRecurrenceInit GatedDeltaNet::recurrence(const Init& init) {
  return {.num_heads = init.num_k_heads,
          .num_k_heads = init.num_k_heads,
          .num_v_heads = init.num_v_heads,
          .head_k_dim = init.head_k_dim,
          .head_v_dim = init.head_v_dim};
}

CausalConv1d::Init GatedDeltaNet::convolution(const Init& init) {
  return {.dim = 2 * init.keys() + init.values(), .width = init.conv_kernel_size, .dtype = init.dtype};
}

std::vector<StateSpec> GatedDeltaNet::states(const Init& init) {
  return {linear_recurrence::state("recurrent_state", recurrence(init)), CausalConv1d::window(convolution(init))};
}

OutputSpecs GatedDeltaNet::outputs(const Init&, Args given) { return {given[0]->spec()}; }

Inputs GatedDeltaNet::inputs(const Init& init, const Workload& w) {
  return {InputSpec{{{w.num_tokens(), init.hidden_size}, w.dtype}, Generator::normal()}};
}

Cost GatedDeltaNet::cost(const Init& init, const Workload& w) {
  const auto T = static_cast<double>(w.num_tokens()), D = static_cast<double>(init.hidden_size);
  const auto K = static_cast<double>(init.keys()), V = static_cast<double>(init.values()),
             H = static_cast<double>(init.num_v_heads), W = static_cast<double>(init.conv_kernel_size);
  const auto size = static_cast<double>(dtype_size(w.dtype));
  const double matrices = D * (2 * K + 3 * V + 2 * H), weights = matrices + W * (2 * K + V);
  double running = 0;
  for (const Sequence& s : w.sequences) running += s.query_len > 0 ? 1 : 0;
  const double states = running * (4 * V * static_cast<double>(init.head_k_dim) + size * (W - 1) * (2 * K + V));
  Cost cost = ChunkGatedDeltaRule::cost(recurrence(init), w);
  return {.read_bytes = states + size * (weights + T * D),
          .written_bytes = states + size * T * D,
          .matrix_flops = cost.matrix_flops + 2 * T * matrices,
          .vector_flops = cost.vector_flops + 2 * T * W * (2 * K + V)};
}

Tolerance GatedDeltaNet::tolerance(const Init& init, DType dtype) {
  // The norms of keys and of heads divide by their size: roundings before them come through.
  Tolerance t = composed_tolerance(dtype, static_cast<double>(init.hidden_size));
  return {t.relative, 4 * t.of_scale};
}

std::vector<Case<GatedDeltaNet>> GatedDeltaNet::cases() {
  Init c{.hidden_size = 64, .num_k_heads = 2, .num_v_heads = 4, .head_k_dim = 16, .head_v_dim = 24, .norm_eps = 1e-2};
  Init odd{.hidden_size = 45,
           .num_k_heads = 3,
           .num_v_heads = 3,
           .head_k_dim = 10,
           .head_v_dim = 7,
           .conv_kernel_size = 3,
           .norm_eps = 1e-2};
  Init whole{
      .hidden_size = 64, .num_k_heads = 2, .num_v_heads = 4, .head_k_dim = 32, .head_v_dim = 64, .norm_eps = 1e-2};
  Init wide{.hidden_size = 40,
            .num_k_heads = 1,
            .num_v_heads = 1,
            .head_k_dim = 128,
            .head_v_dim = 96,
            .conv_kernel_size = 2,
            .norm_eps = 1e-2};
  return {{"decode", c, Workload::batch({{1, 5}, {1, 40}})},
          {"few tokens, heads of whole warps", whole, Workload::batch({{1, 5}, {1, 40}, {3, 0}, {2, 7}})},
          {"one token, one head", wide, Workload::batch({{1, 9}})},
          {"mixed", c, Workload::batch({{1, 30}, {1, 1}, {17, 0}, {5, 33}})},
          {"odd", odd, Workload::batch({{1, 3}, {9, 0}})}};
}

namespace {

class ComposedGatedDeltaNet final : public GatedDeltaNet {
 public:
  ComposedGatedDeltaNet(const Init& c, Builder& builder)
      : GatedDeltaNet(c),
        in_proj_qkvz_(builder.child<ReplicatedLinear>(
            "in_proj_qkvz",
            {.input_size = c.hidden_size, .output_size = 2 * c.keys() + 2 * c.values(), .dtype = c.dtype})),
        in_proj_ba_(builder.child<ReplicatedLinear>(
            "in_proj_ba", {.input_size = c.hidden_size, .output_size = 2 * c.num_v_heads, .dtype = c.dtype})),
        split_(builder.child<FusedQKVZSplitReshapeCat>("split", {.num_k_heads = c.num_k_heads,
                                                                 .num_v_heads = c.num_v_heads,
                                                                 .head_k_dim = c.head_k_dim,
                                                                 .head_v_dim = c.head_v_dim})),
        conv1d_(builder.child<CausalConv1d>("conv1d", convolution(c))),
        gating_(builder.child<FusedGDNGating>(
            "", {.num_k_heads = c.num_k_heads, .num_v_heads = c.num_v_heads, .dtype = c.dtype})),
        l2_norm_(builder.child<L2Norm>("l2_norm", {.hidden_size = c.head_k_dim})),
        delta_rule_(builder, recurrence(c)),
        norm_(builder.child<RMSNormGated>(
            "norm", {.hidden_size = c.head_v_dim, .eps = c.norm_eps, .norm_before_gate = true, .dtype = c.dtype})),
        out_proj_(builder.child<ReplicatedLinear>(
            "out_proj", {.input_size = c.values(), .output_size = c.hidden_size, .dtype = c.dtype})) {}

  void forward(Context& ctx, View hidden_states, View out) override {
    auto [projected, z] = split_(ctx, std::get<0>(in_proj_qkvz_(ctx, hidden_states)));
    auto [g, beta] = gating_(ctx, std::get<0>(in_proj_ba_(ctx, hidden_states)));
    const int64_t keys = init_.keys();
    View qkv = ctx.arena.make(projected.spec());
    const TensorSpec heads{{qkv.size(0), init_.num_k_heads, init_.head_k_dim}, qkv.dtype()};
    View q = ctx.arena.make(heads), k = ctx.arena.make(heads);
    for_groups(*ctx.attention, [&](int64_t begin, int64_t count, const SequenceGroup& group, bool decoding) {
      auto part = [&](const View& x) { return x.narrow(0, begin, count); };
      conv1d_.into(ctx, part(projected), own_state(ctx, 1), group.state_slots,
                   decoding ? OptView() : OptView(group.cu_seqlens_q), part(qkv));
      // Per group: a graph has no value for some columns of rows that two calls wrote.
      auto normed = [&](int64_t first, const View& to) {
        l2_norm_.into(ctx, part(qkv).narrow(1, first, keys).split_last(init_.num_k_heads, init_.head_k_dim), part(to));
      };
      normed(0, q);
      normed(keys, k);
    });
    auto values = [&](const View& x) { return x.split_last(init_.num_v_heads, init_.head_v_dim); };
    View mixed = delta_rule_(ctx, own_state(ctx, 0), q, k, values(qkv.narrow(1, 2 * keys, init_.values())), g, beta);
    out_proj_.into(ctx, norm_(ctx, mixed, values(z)).flatten_last(), out, OptView());
  }

 private:
  Op<ReplicatedLinear> in_proj_qkvz_, in_proj_ba_;
  Op<FusedQKVZSplitReshapeCat> split_;
  Op<CausalConv1d> conv1d_;
  Op<FusedGDNGating> gating_;
  Op<L2Norm> l2_norm_;
  BatchedRecurrence<ChunkGatedDeltaRule, FusedRecurrentGatedDeltaRule> delta_rule_;
  Op<RMSNormGated> norm_;
  Op<ReplicatedLinear> out_proj_;
};

FK_COMPOSITION(GatedDeltaNet, ComposedGatedDeltaNet);

}  // namespace
}  // namespace fk
