#include "ops/l2/kimi_delta_attention.h"

#include "ops/l1/chunk_kda.h"
#include "ops/l1/fused_kda_gate.h"
#include "ops/l1/fused_recurrent_kda.h"
#include "ops/l1/l2_norm.h"
#include "ops/l1/rms_norm_gated.h"
#include "ops/l2/batched_recurrence.h"
#include "ops/l2/merged_column_parallel_linear.h"
#include "ops/l2/replicated_linear.h"
#include "ops/register.h"

namespace fk {

LinearRecurrenceInit KimiDeltaAttention::recurrence(const Init& init) {
  return {.num_heads = init.num_heads, .head_k_dim = init.head_dim, .head_v_dim = init.head_dim};
}

CausalConv1d::Init KimiDeltaAttention::convolution(const Init& init) {
  return {.dim = 3 * init.width(), .width = init.conv_kernel_size, .dtype = init.dtype};
}

std::vector<StateSpec> KimiDeltaAttention::states(const Init& init) {
  return {linear_recurrence::state("recurrent_state", recurrence(init)), CausalConv1d::window(convolution(init))};
}

OutputSpecs KimiDeltaAttention::outputs(const Init&, Args given) { return {given[0]->spec()}; }

Inputs KimiDeltaAttention::inputs(const Init& init, const Workload& w) {
  return {InputSpec{{{w.num_tokens(), init.hidden_size}, w.dtype}, Generator::normal()}};
}

Cost KimiDeltaAttention::cost(const Init& init, const Workload& w) {
  const auto T = static_cast<double>(w.num_tokens()), D = static_cast<double>(init.hidden_size);
  const auto N = static_cast<double>(init.width()), K = static_cast<double>(init.head_dim),
             H = static_cast<double>(init.num_heads), W = static_cast<double>(init.conv_kernel_size);
  const auto size = static_cast<double>(dtype_size(w.dtype));
  const double matrices = D * (4 * N + 2 * K + H) + 2 * K * N;
  double running = 0;
  for (const Sequence& s : w.sequences) running += s.query_len > 0 ? 1 : 0;
  const double states = running * (4 * N * K + size * 3 * (W - 1) * N);
  const Cost rule = ChunkKDA::cost(recurrence(init), w);
  return {.read_bytes = states + size * (matrices + 3 * W * N + K + T * D) + 4 * (N + H),
          .written_bytes = states + size * T * D,
          .matrix_flops = rule.matrix_flops + 2 * T * matrices,
          .vector_flops = rule.vector_flops + 6 * T * W * N};
}

Tolerance KimiDeltaAttention::tolerance(const Init& init, DType dtype) {
  // The norms of keys and of heads divide by their size: roundings before them come through.
  Tolerance t = composed_tolerance(dtype, static_cast<double>(init.hidden_size));
  return {t.relative, 4 * t.of_scale};
}

std::vector<Case<KimiDeltaAttention>> KimiDeltaAttention::cases() {
  Init c{.hidden_size = 64, .num_heads = 4, .head_dim = 16, .rms_norm_eps = 1e-2};
  Init odd{.hidden_size = 45, .num_heads = 3, .head_dim = 10, .conv_kernel_size = 3, .rms_norm_eps = 1e-2};
  return {{"decode", c, Workload::batch({{1, 5}, {1, 40}})},
          {"mixed", c, Workload::batch({{1, 30}, {1, 1}, {17, 0}, {5, 33}})},
          {"odd", odd, Workload::batch({{1, 3}, {9, 0}})}};
}

namespace {

class ComposedKimiDeltaAttention final : public KimiDeltaAttention {
 public:
  ComposedKimiDeltaAttention(const Init& c, Builder& builder)
      : KimiDeltaAttention(c),
        in_proj_(builder.child<MergedColumnParallelLinear>(
            "in_proj", {.input_size = c.hidden_size,
                        .output_sizes = {c.width(), c.width(), c.width(), c.head_dim, c.head_dim, c.num_heads},
                        .dtype = c.dtype})),
        conv1d_(builder.child<CausalConv1d>("conv1d", convolution(c))),
        f_b_proj_(builder.child<ReplicatedLinear>("f_b_proj", up(c))),
        g_b_proj_(builder.child<ReplicatedLinear>("g_b_proj", up(c))),
        gate_(builder.child<FusedKDAGate>("", {.num_heads = c.num_heads, .head_dim = c.head_dim, .dtype = c.dtype})),
        l2_norm_(builder.child<L2Norm>("l2_norm", {.hidden_size = c.head_dim})),
        delta_rule_(builder, recurrence(c)),
        o_norm_(builder.child<RMSNormGated>("o_norm", {.hidden_size = c.head_dim,
                                                       .eps = c.rms_norm_eps,
                                                       .norm_before_gate = true,
                                                       .sigmoid = true,
                                                       .dtype = c.dtype})),
        o_proj_(builder.child<ReplicatedLinear>(
            "o_proj", {.input_size = c.width(), .output_size = c.hidden_size, .dtype = c.dtype})) {}

  void forward(Context& ctx, View hidden_states, View out) override {
    const int64_t N = init_.width(), H = init_.num_heads, K = init_.head_dim;
    View all = std::get<0>(in_proj_(ctx, hidden_states));  // q, k, v, decays, gates, betas
    View decays = std::get<0>(f_b_proj_(ctx, all.narrow(1, 3 * N, K)));
    View gates = std::get<0>(g_b_proj_(ctx, all.narrow(1, 3 * N + K, K)));
    auto [g, beta] = gate_(ctx, decays, all.narrow(1, 3 * N + 2 * K, H));
    View qkv = ctx.arena.make({{all.size(0), 3 * N}, all.dtype()});
    const TensorSpec heads{{all.size(0), H, K}, all.dtype()};
    View q = ctx.arena.make(heads), k = ctx.arena.make(heads);
    for_groups(*ctx.attention, [&](int64_t begin, int64_t count, const SequenceGroup& group, bool decoding) {
      auto part = [&](const View& x) { return x.narrow(0, begin, count); };
      conv1d_.into(ctx, part(all).narrow(1, 0, 3 * N), own_state(ctx, 1), group.state_slots,
                   decoding ? OptView() : OptView(group.cu_seqlens_q), part(qkv));
      // Per group: a graph has no value for some columns of rows that two calls wrote.
      auto normed = [&](int64_t first, const View& to) {
        l2_norm_.into(ctx, part(qkv).narrow(1, first, N).split_last(H, K), part(to));
      };
      normed(0, q);
      normed(N, k);
    });
    View mixed =
        delta_rule_(ctx, own_state(ctx, 0), q, k, qkv.narrow(1, 2 * N, N).split_last(H, K), g.split_last(H, K), beta);
    o_proj_.into(ctx, o_norm_(ctx, mixed, gates.split_last(H, K)).flatten_last(), out, OptView());
  }

 private:
  static ReplicatedLinear::Init up(const Init& c) {
    return {.input_size = c.head_dim, .output_size = c.width(), .dtype = c.dtype};
  }

  Op<MergedColumnParallelLinear> in_proj_;
  Op<CausalConv1d> conv1d_;
  Op<ReplicatedLinear> f_b_proj_, g_b_proj_;
  Op<FusedKDAGate> gate_;
  Op<L2Norm> l2_norm_;
  BatchedRecurrence<ChunkKDA, FusedRecurrentKDA> delta_rule_;
  Op<RMSNormGated> o_norm_;
  Op<ReplicatedLinear> o_proj_;
};

FK_COMPOSITION(KimiDeltaAttention, ComposedKimiDeltaAttention);

}  // namespace
}  // namespace fk
