#include "ops/l2/rwkv7_attention.h"

#include "ops/l1/activation.h"
#include "ops/l1/chunk_rwkv7.h"
#include "ops/l1/fused_addcmul_rwkv7.h"
#include "ops/l1/fused_recurrent_rwkv7.h"
#include "ops/l1/gate_output_correction.h"
#include "ops/l1/group_norm.h"
#include "ops/l1/rwkv7_gates.h"
#include "ops/l2/batched_recurrence.h"
#include "ops/l2/replicated_linear.h"
#include "ops/l2/token_mixing.h"
#include "ops/register.h"

namespace fk {

LinearRecurrenceInit RWKV7Attention::recurrence(const Init& init) {
  return {.num_heads = init.num_heads(), .head_k_dim = init.head_dim, .head_v_dim = init.head_dim, .scale = 1};
}

std::vector<StateSpec> RWKV7Attention::states(const Init& init) {
  return {linear_recurrence::state("recurrent_state", recurrence(init)),
          TokenShift::window("shift_state", {.hidden_size = init.hidden_size})};
}

OutputSpecs RWKV7Attention::outputs(const Init& init, Args given) {
  return {given[0]->spec(), init.first_layer ? std::optional(given[0]->spec()) : std::nullopt};
}

Inputs RWKV7Attention::inputs(const Init& init, const Workload& w) {
  InputSpec row{{{w.num_tokens(), init.hidden_size}, w.dtype}, Generator::normal()};
  return {row, init.first_layer ? std::nullopt : std::optional(row)};
}

Cost RWKV7Attention::cost(const Init& init, const Workload& w) {
  const auto T = static_cast<double>(w.num_tokens()), D = static_cast<double>(init.hidden_size);
  const auto size = static_cast<double>(dtype_size(w.dtype));
  const auto ranks = static_cast<double>(init.decay_low_rank_dim + init.gate_low_rank_dim + init.a_low_rank_dim +
                                         (init.first_layer ? 0 : init.v_low_rank_dim));
  const double weights = 4 * D * D + 2 * D * ranks;
  double running = 0;
  for (const Sequence& s : w.sequences) running += s.query_len > 0 ? 1 : 0;
  const double states = running * (4 * D * static_cast<double>(init.head_dim) + size * D);
  Cost cost = ChunkRWKV7::cost(recurrence(init), w);
  return {.read_bytes = states + size * (weights + (init.first_layer ? 1 : 2) * T * D),
          .written_bytes = states + size * (init.first_layer ? 2 : 1) * T * D,
          .matrix_flops = cost.matrix_flops + 2 * T * weights,
          .vector_flops = cost.vector_flops};
}

Tolerance RWKV7Attention::tolerance(const Init& init, DType dtype) {
  // Gates multiply, and the group norm divides by the size of a head: roundings before both come through.
  Tolerance t = composed_tolerance(dtype, static_cast<double>(init.hidden_size));
  return {t.relative, 4 * t.of_scale};
}

std::vector<Case<RWKV7Attention>> RWKV7Attention::cases() {
  Init c{.hidden_size = 64,
         .head_dim = 16,
         .decay_low_rank_dim = 8,
         .gate_low_rank_dim = 12,
         .a_low_rank_dim = 8,
         .v_low_rank_dim = 6,
         .norm_eps = 1e-2};
  Init first = c;
  first.first_layer = true;
  first.fuse_norm = true;
  Init odd = c;
  odd.hidden_size = 63;
  odd.head_dim = 21;
  return {{"first layer", first, Workload::batch({{1, 5}, {1, 40}, {9, 0}})},
          {"later layer", c, Workload::batch({{1, 30}, {1, 1}, {17, 0}, {5, 33}})},
          {"odd", odd, Workload::batch({{1, 3}, {9, 0}})}};
}

namespace {

// Two small matrices with an activation between them.
class LowRank {
 public:
  LowRank(Builder& builder, const std::string& name, int64_t size, int64_t rank, const std::string& activation,
          bool bias, DType dtype)
      : down_(builder.child<ReplicatedLinear>(name + ".lora.0",
                                              {.input_size = size, .output_size = rank, .dtype = dtype})),
        up_(builder.child<ReplicatedLinear>(name + ".lora.2",
                                            {.input_size = rank, .output_size = size, .bias = bias, .dtype = dtype})) {
    if (!activation.empty()) activation_.emplace(builder.child<Activation>(name + ".lora.1", {activation}));
  }

  View operator()(Context& ctx, const View& x) const {
    View small = std::get<0>(down_(ctx, x));
    return std::get<0>(up_(ctx, activation_ ? (*activation_)(ctx, small) : small));
  }

 private:
  Op<ReplicatedLinear> down_, up_;
  std::optional<Op<Activation>> activation_;
};

class ComposedRWKV7Attention final : public RWKV7Attention {
 public:
  ComposedRWKV7Attention(const Init& c, Builder& builder)
      : RWKV7Attention(c),
        shift_(builder, c.hidden_size),
        mixtures_(builder.child<FusedAddcmulRWKV7>("", {.hidden_size = c.hidden_size, .dtype = c.dtype})),
        r_proj_(builder.child<ReplicatedLinear>("r_proj", square(c))),
        k_proj_(builder.child<ReplicatedLinear>("k_proj", square(c))),
        v_proj_(builder.child<ReplicatedLinear>("v_proj", square(c))),
        o_proj_(builder.child<ReplicatedLinear>("o_proj", square(c))),
        w_lora_(builder, "w_lora", c.hidden_size, c.decay_low_rank_dim, "tanh", true, c.dtype),
        a_lora_(builder, "a_lora", c.hidden_size, c.a_low_rank_dim, "", true, c.dtype),
        g_lora_(builder, "g_lora", c.hidden_size, c.gate_low_rank_dim, "sigmoid", false, c.dtype),
        // F.normalize raises norms below 1e-12 to that.
        gates_(builder.child<RWKV7Gates>(
            "",
            {.num_heads = c.num_heads(), .head_dim = c.head_dim, .eps = c.fuse_norm ? 1e-6 : 1e-24, .dtype = c.dtype})),
        rwkv7_(builder, recurrence(c)),
        g_norm_(builder.child<GroupNorm>("g_norm", {.num_groups = c.num_heads(),
                                                    .hidden_size = c.hidden_size,
                                                    .eps = static_cast<double>(c.head_dim) * c.norm_eps,
                                                    .dtype = c.dtype})),
        correction_(builder.child<GateOutputCorrection>(
            "", {.num_heads = c.num_heads(), .head_dim = c.head_dim, .dtype = c.dtype})) {
    if (!c.first_layer) v_lora_.emplace(builder, "v_lora", c.hidden_size, c.v_low_rank_dim, "", true, c.dtype);
  }

  void forward(Context& ctx, View hidden_states, OptView v_first, View out, OptView v_first_out) override {
    View mixed = mixtures_(ctx, hidden_states, shift_(ctx, own_state(ctx, 1), hidden_states));
    auto part = [&](int64_t i) { return mixed.select(0, i); };  // r, w, k, v, a, g
    View r = std::get<0>(r_proj_(ctx, part(0))), k = std::get<0>(k_proj_(ctx, part(2))), v;
    OptView v_gate;
    if (v_first_out) {
      v = *v_first_out;
      v_proj_.into(ctx, part(3), v, OptView());
    } else {
      v = std::get<0>(v_proj_(ctx, part(3)));
      v_gate = (*v_lora_)(ctx, part(3));
    }
    View w = w_lora_(ctx, part(1)), a = a_lora_(ctx, part(4)), gate = g_lora_(ctx, part(5));
    auto [decay, kab, value] = gates_(ctx, w, k, v, a, v_gate, v_gate ? v_first : OptView());
    View key = kab.select(0, 0), values = value ? *value : v;
    auto heads = [&](const View& x) { return x.split_last(init_.num_heads(), init_.head_dim); };
    View o = rwkv7_(ctx, own_state(ctx, 0), heads(r), heads(decay), heads(key), heads(values), heads(kab.select(0, 1)),
                    heads(kab.select(0, 2)));
    View normed = g_norm_(ctx, o.flatten_last());
    o_proj_.into(ctx, correction_(ctx, normed, r, key, values, gate), out, OptView());
  }

 private:
  static ReplicatedLinear::Init square(const Init& c) {
    return {.input_size = c.hidden_size, .output_size = c.hidden_size, .dtype = c.dtype};
  }

  ShiftedTokens shift_;
  Op<FusedAddcmulRWKV7> mixtures_;
  Op<ReplicatedLinear> r_proj_, k_proj_, v_proj_, o_proj_;
  LowRank w_lora_, a_lora_, g_lora_;
  std::optional<LowRank> v_lora_;
  Op<RWKV7Gates> gates_;
  BatchedRecurrence<ChunkRWKV7, FusedRecurrentRWKV7> rwkv7_;
  Op<GroupNorm> g_norm_;
  Op<GateOutputCorrection> correction_;
};

FK_COMPOSITION(RWKV7Attention, ComposedRWKV7Attention);

}  // namespace
}  // namespace fk
