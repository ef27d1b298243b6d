#include "ops/l2/mamba2_mixer.h"

#include "ops/l2/replicated_linear.h"
#include "ops/register.h"

namespace fk {

CausalConv1d::Init Mamba2Mixer::convolution(const Init& init) {
  return {.dim = init.conv_dim(), .width = init.conv_kernel, .bias = init.use_conv_bias, .dtype = init.dtype};
}

SSDScan::Init Mamba2Mixer::scan(const Init& init) {
  return {.num_heads = init.num_heads,
          .head_dim = init.head_dim,
          .state_size = init.state_size,
          .n_groups = init.n_groups,
          .dtype = init.dtype};
}

RMSNormGated::Init Mamba2Mixer::gated_norm(const Init& init) {
  return {.hidden_size = init.intermediate_size(),
          .eps = init.norm_eps,
          .group_size = init.norm_group_size,
          .dtype = init.dtype};
}

std::vector<StateSpec> Mamba2Mixer::states(const Init& init) {
  return {CausalConv1d::window(convolution(init)), SSDScan::recurrent_state(scan(init))};
}

OutputSpecs Mamba2Mixer::outputs(const Init&, Args given) { return {TensorSpec{given[0]->shape(), given[0]->dtype()}}; }

Inputs Mamba2Mixer::inputs(const Init& init, const Workload& w) {
  return {InputSpec{{{w.num_tokens(), init.hidden_size}, w.dtype}, Generator::normal()}};
}

Cost Mamba2Mixer::cost(const Init& init, const Workload& w) {
  auto T = static_cast<double>(w.num_tokens()), D = static_cast<double>(init.hidden_size),
       I = static_cast<double>(init.intermediate_size()), X = static_cast<double>(init.conv_dim()),
       H = static_cast<double>(init.num_heads), size = static_cast<double>(dtype_size(w.dtype));
  double matrices = D * (I + X + H) + I * D;
  // What passes between the parts need not go through memory; weights and states of the parts do.
  Cost conv = CausalConv1d::cost(convolution(init), w), ssd = SSDScan::cost(scan(init), w);
  return {.read_bytes = (matrices + I + T * D - T * X - T * (X + H)) * size + conv.read_bytes + ssd.read_bytes,
          .written_bytes = (T * D - T * X - T * I) * size + conv.written_bytes + ssd.written_bytes,
          .matrix_flops = 2 * T * matrices + ssd.matrix_flops,
          .vector_flops = conv.vector_flops + ssd.vector_flops + 7 * T * I};
}

Tolerance Mamba2Mixer::tolerance(const Init& init, DType dtype) {
  // As MambaMixer's: errors of the time step act on all later tokens, those of x, B and C multiply.
  Tolerance t = composed_tolerance(dtype, static_cast<double>(init.intermediate_size()));
  return {2 * t.relative, 4 * t.of_scale};
}

std::vector<Case<Mamba2Mixer>> Mamba2Mixer::cases() {
  Init c{.hidden_size = 48, .num_heads = 6, .head_dim = 16, .state_size = 16, .n_groups = 2, .norm_group_size = 48};
  Init odd{.hidden_size = 35,
           .num_heads = 5,
           .head_dim = 14,
           .state_size = 11,
           .conv_kernel = 3,
           .use_conv_bias = false,
           .use_bias = true};
  Workload mixed = Workload::batch({{1, 30}, {1, 1}, {17, 0}, {5, 33}});
  return {{"decode", c, Workload::batch({{1, 5}, {1, 40}})},
          {"prefill", c, Workload::batch({{20, 0}, {3, 0}, {2, 7}})},
          {"mixed", c, mixed},
          {"mixed, biases, odd", odd, mixed}};
}

namespace {

class ComposedMamba2Mixer final : public Mamba2Mixer {
 public:
  ComposedMamba2Mixer(const Init& c, Builder& builder)
      : Mamba2Mixer(c),
        in_proj(builder.child<ReplicatedLinear>("in_proj",
                                                {.input_size = c.hidden_size,
                                                 .output_size = c.intermediate_size() + c.conv_dim() + c.num_heads,
                                                 .bias = c.use_bias,
                                                 .dtype = c.dtype})),
        conv1d(builder.child<CausalConv1d>("conv1d", convolution(c))),
        ssd_scan(builder.child<SSDScan>("", scan(c))),
        norm(builder.child<RMSNormGated>("norm", gated_norm(c))),
        out_proj(builder.child<ReplicatedLinear>("out_proj", {.input_size = c.intermediate_size(),
                                                              .output_size = c.hidden_size,
                                                              .bias = c.use_bias,
                                                              .dtype = c.dtype})) {}

  void forward(Context& ctx, View hidden_states, View out) override {
    const AttentionMetadata& batch = *ctx.attention;
    const int64_t I = init_.intermediate_size(), X = init_.conv_dim(), GN = init_.n_groups * init_.state_size;
    const int64_t decoding = batch.decode.num_tokens, prefilling = batch.prefill.num_tokens;
    const View &conv_state = own_state(ctx, 0), &ssm_state = own_state(ctx, 1);
    auto decode = [&](const View& v) { return v.narrow(0, 0, decoding); };
    auto prefill = [&](const View& v) { return v.narrow(0, decoding, prefilling); };

    View projected = std::get<0>(in_proj(ctx, hidden_states));
    View gate = projected.narrow(1, 0, I), raw = projected.narrow(1, I, X),
         dt = projected.narrow(1, I + X, init_.num_heads);
    View mixed = ctx.arena.make({raw.shape(), raw.dtype()});
    if (decoding > 0) conv1d.into(ctx, decode(raw), conv_state, batch.decode.state_slots, OptView(), decode(mixed));
    if (prefilling > 0)
      conv1d.into(ctx, prefill(raw), conv_state, batch.prefill.state_slots, batch.prefill.cu_seqlens_q, prefill(mixed));

    View x = mixed.narrow(1, 0, I), B = mixed.narrow(1, I, GN), C = mixed.narrow(1, I + GN, GN);
    View y = ctx.arena.make({x.shape(), x.dtype()});
    if (decoding > 0)
      ssd_scan.into(ctx, decode(x), decode(dt), decode(B), decode(C), ssm_state, batch.decode.state_slots, OptView(),
                    decode(y));
    if (prefilling > 0)
      ssd_scan.into(ctx, prefill(x), prefill(dt), prefill(B), prefill(C), ssm_state, batch.prefill.state_slots,
                    batch.prefill.cu_seqlens_q, prefill(y));
    out_proj.into(ctx, norm(ctx, y, gate), out, OptView());
  }

 private:
  Op<ReplicatedLinear> in_proj;
  Op<CausalConv1d> conv1d;
  Op<SSDScan> ssd_scan;
  Op<RMSNormGated> norm;
  Op<ReplicatedLinear> out_proj;
};

FK_COMPOSITION(Mamba2Mixer, ComposedMamba2Mixer);

}  // namespace
}  // namespace fk
