#include "ops/l2/mamba_mixer.h"

#include "core/error.h"
#include "ops/l1/rms_norm.h"
#include "ops/l1/unweighted_rms_norm.h"
#include "ops/l2/replicated_linear.h"
#include "ops/register.h"

namespace fk {
namespace {

constexpr std::string_view kWeighted = "weighted", kPlain = "plain";

ReplicatedLinear::Init matrix(const MambaMixerInit& init, int64_t from, int64_t to, bool bias) {
  return {.input_size = from, .output_size = to, .bias = bias, .dtype = init.dtype};
}
int64_t time_and_states(const MambaMixerInit& init) { return init.time_step_rank + 2 * init.state_size; }

}  // namespace

CausalConv1d::Init MambaMixer::convolution(const Init& init) {
  return {.dim = init.intermediate_size, .width = init.conv_kernel, .bias = init.use_conv_bias, .dtype = init.dtype};
}

SelectiveScan::Init MambaMixer::scan(const Init& init) {
  return {.dim = init.intermediate_size, .state_size = init.state_size, .dtype = init.dtype};
}

std::vector<StateSpec> MambaMixer::states(const Init& init) {
  return {CausalConv1d::window(convolution(init)), SelectiveScan::recurrent_state(scan(init))};
}

OutputSpecs MambaMixer::outputs(const Init&, Args given) { return {TensorSpec{given[0]->shape(), given[0]->dtype()}}; }

Inputs MambaMixer::inputs(const Init& init, const Workload& w) {
  return {InputSpec{{{w.num_tokens(), init.hidden_size}, w.dtype}, Generator::normal()}};
}

Cost MambaMixer::cost(const Init& init, const Workload& w) {
  auto T = static_cast<double>(w.num_tokens()), D = static_cast<double>(init.hidden_size),
       I = static_cast<double>(init.intermediate_size), R = static_cast<double>(init.time_step_rank),
       X = static_cast<double>(time_and_states(init)), size = static_cast<double>(dtype_size(w.dtype));
  double matrices = 3 * D * I + I * X + R * I;
  // What passes between the parts need not go through memory; weights and states of the parts do.
  Cost conv = CausalConv1d::cost(convolution(init), w), scan_cost = SelectiveScan::cost(scan(init), w);
  double N = static_cast<double>(init.state_size);
  return {
      .read_bytes = (matrices + T * D - T * I - T * (3 * I + 2 * N)) * size + conv.read_bytes + scan_cost.read_bytes,
      .written_bytes = (T * D - 2 * T * I) * size + conv.written_bytes + scan_cost.written_bytes,
      .matrix_flops = 2 * T * matrices,
      .vector_flops = conv.vector_flops + scan_cost.vector_flops};
}

Tolerance MambaMixer::tolerance(const Init& init, DType dtype) {
  // The time step is rounded to dtype before it enters an exponential, and its error acts on all later tokens; errors
  // of the convolution, of B and of C multiply.
  Tolerance t = composed_tolerance(dtype, static_cast<double>(init.intermediate_size));
  return {2 * t.relative, 4 * t.of_scale};
}

std::vector<Case<MambaMixer>> MambaMixer::cases() {
  Init c{.hidden_size = 40, .intermediate_size = 80, .state_size = 16, .time_step_rank = 3};
  Init biased = c, weighted = c, plain = c;
  biased.use_bias = true;
  biased.use_conv_bias = false;
  biased.conv_kernel = 3;
  biased.state_size = 5;
  weighted.inner_norms = kWeighted;
  plain.inner_norms = kPlain;
  Workload mixed = Workload::batch({{1, 30}, {1, 1}, {17, 0}, {5, 33}});
  return {{"decode", c, Workload::batch({{1, 5}, {1, 40}})},
          {"prefill", c, Workload::batch({{20, 0}, {3, 0}, {2, 7}})},
          {"mixed", c, mixed},
          {"mixed, biases, odd", biased, mixed},
          {"mixed, norms with weights", weighted, mixed},
          {"mixed, norms without", plain, mixed}};
}

namespace {

class ComposedMambaMixer final : public MambaMixer {
 public:
  ComposedMambaMixer(const Init& c, Builder& builder)
      : MambaMixer(c),
        in_proj(
            builder.child<ReplicatedLinear>("in_proj", matrix(c, c.hidden_size, 2 * c.intermediate_size, c.use_bias))),
        conv1d(builder.child<CausalConv1d>("conv1d", convolution(c))),
        x_proj(builder.child<ReplicatedLinear>("x_proj", matrix(c, c.intermediate_size, time_and_states(c), false))),
        dt_proj(builder.child<ReplicatedLinear>("dt_proj", matrix(c, c.time_step_rank, c.intermediate_size, false))),
        selective_scan(builder.child<SelectiveScan>("", scan(c))),
        out_proj(
            builder.child<ReplicatedLinear>("out_proj", matrix(c, c.intermediate_size, c.hidden_size, c.use_bias))) {
    const std::string_view names[] = {"dt_layernorm", "b_layernorm", "c_layernorm"};
    const int64_t widths[] = {c.time_step_rank, c.state_size, c.state_size};
    for (size_t i = 0; i < 3; ++i) {
      if (c.inner_norms == kWeighted)
        weighted.push_back(
            builder.child<RMSNorm>(names[i], {.hidden_size = widths[i], .eps = c.inner_norm_eps, .dtype = c.dtype}));
      else if (c.inner_norms == kPlain)
        plain.push_back(
            builder.child<UnweightedRMSNorm>(names[i], {.hidden_size = widths[i], .eps = c.inner_norm_eps}));
      else if (!c.inner_norms.empty())
        throw Error("inner_norms must be empty, '{}' or '{}', not '{}'.", kWeighted, kPlain, c.inner_norms);
    }
  }

  void forward(Context& ctx, View hidden_states, View out) override {
    const AttentionMetadata& batch = *ctx.attention;
    const int64_t I = init_.intermediate_size, R = init_.time_step_rank, N = init_.state_size;
    const int64_t decoding = batch.decode.num_tokens, prefilling = batch.prefill.num_tokens;
    const View &conv_state = own_state(ctx, 0), &ssm_state = own_state(ctx, 1);
    auto decode = [&](const View& v) { return v.narrow(0, 0, decoding); };
    auto prefill = [&](const View& v) { return v.narrow(0, decoding, prefilling); };

    View projected = std::get<0>(in_proj(ctx, hidden_states));
    View x = projected.narrow(1, 0, I), gate = projected.narrow(1, I, I);
    View u = ctx.arena.make({x.shape(), x.dtype()});
    if (decoding > 0) conv1d.into(ctx, decode(x), conv_state, batch.decode.state_slots, OptView(), decode(u));
    if (prefilling > 0)
      conv1d.into(ctx, prefill(x), conv_state, batch.prefill.state_slots, batch.prefill.cu_seqlens_q, prefill(u));

    View parameters = std::get<0>(x_proj(ctx, u));
    View B = normed(ctx, parameters.narrow(1, R, N), 1), C = normed(ctx, parameters.narrow(1, R + N, N), 2);
    View delta = std::get<0>(dt_proj(ctx, normed(ctx, parameters.narrow(1, 0, R), 0)));
    View y = ctx.arena.make({x.shape(), x.dtype()});
    if (decoding > 0)
      selective_scan.into(ctx, decode(u), decode(delta), decode(B), decode(C), decode(gate), ssm_state,
                          batch.decode.state_slots, OptView(), decode(y));
    if (prefilling > 0)
      selective_scan.into(ctx, prefill(u), prefill(delta), prefill(B), prefill(C), prefill(gate), ssm_state,
                          batch.prefill.state_slots, batch.prefill.cu_seqlens_q, prefill(y));
    out_proj.into(ctx, y, out, OptView());
  }

 private:
  View normed(Context& ctx, const View& x, size_t which) const {
    if (!weighted.empty()) return std::get<0>(weighted[which](ctx, x));
    if (!plain.empty()) return plain[which](ctx, x.split_last(1, x.size(1))).flatten_last();
    return x;
  }

  Op<ReplicatedLinear> in_proj;
  Op<CausalConv1d> conv1d;
  Op<ReplicatedLinear> x_proj, dt_proj;
  Op<SelectiveScan> selective_scan;
  Op<ReplicatedLinear> out_proj;
  std::vector<Op<RMSNorm>> weighted;
  std::vector<Op<UnweightedRMSNorm>> plain;
};

FK_COMPOSITION(MambaMixer, ComposedMambaMixer);

}  // namespace
}  // namespace fk
