#include "ops/l2/rwkv7_feed_forward.h"

#include "ops/l1/activation.h"
#include "ops/l1/fused_addcmul_rwkv7.h"
#include "ops/l2/replicated_linear.h"
#include "ops/l2/token_mixing.h"
#include "ops/register.h"

namespace fk {

std::vector<StateSpec> RWKV7FeedForward::states(const Init& init) {
  return {TokenShift::window("shift_state", {.hidden_size = init.hidden_size})};
}

OutputSpecs RWKV7FeedForward::outputs(const Init&, Args given) { return {given[0]->spec()}; }

Inputs RWKV7FeedForward::inputs(const Init& init, const Workload& w) {
  return {InputSpec{{{w.num_tokens(), init.hidden_size}, w.dtype}, Generator::normal()}};
}

Cost RWKV7FeedForward::cost(const Init& init, const Workload& w) {
  const auto T = static_cast<double>(w.num_tokens()), D = static_cast<double>(init.hidden_size),
             F = static_cast<double>(init.intermediate_size), size = static_cast<double>(dtype_size(w.dtype));
  double running = 0;
  for (const Sequence& s : w.sequences) running += s.query_len > 0 ? 1 : 0;
  return {.read_bytes = size * (2 * D * F + D + T * D + running * D),
          .written_bytes = size * (T * D + running * D),
          .matrix_flops = 4 * T * D * F,
          .vector_flops = 3 * T * F};
}

Tolerance RWKV7FeedForward::tolerance(const Init& init, DType dtype) {
  // The square doubles relative errors.
  Tolerance t = composed_tolerance(dtype, static_cast<double>(init.intermediate_size));
  return {t.relative, 2 * t.of_scale};
}

std::vector<Case<RWKV7FeedForward>> RWKV7FeedForward::cases() {
  return {{"mixed", {.hidden_size = 64, .intermediate_size = 160}, Workload::batch({{1, 5}, {1, 2}, {9, 0}, {3, 4}})},
          {"odd", {.hidden_size = 33, .intermediate_size = 77}, Workload::batch({{1, 3}, {5, 0}})}};
}

namespace {

class ComposedRWKV7FeedForward final : public RWKV7FeedForward {
 public:
  ComposedRWKV7FeedForward(const Init& c, Builder& builder)
      : RWKV7FeedForward(c),
        shift_(builder, c.hidden_size),
        mixture_(builder.child<FusedAddcmulRWKV7>(
            "", {.hidden_size = c.hidden_size, .parts = "k", .flat = true, .dtype = c.dtype})),
        key_(builder.child<ReplicatedLinear>(
            "key", {.input_size = c.hidden_size, .output_size = c.intermediate_size, .dtype = c.dtype})),
        value_(builder.child<ReplicatedLinear>(
            "value", {.input_size = c.intermediate_size, .output_size = c.hidden_size, .dtype = c.dtype})),
        act_fn_(builder.child<Activation>("act_fn", {"relu2"})) {}

  void forward(Context& ctx, View x, View out) override {
    View mixed = mixture_(ctx, x, shift_(ctx, own_state(ctx, 0), x)).select(0, 0);
    value_.into(ctx, act_fn_(ctx, std::get<0>(key_(ctx, mixed))), out, OptView());
  }

 private:
  ShiftedTokens shift_;
  Op<FusedAddcmulRWKV7> mixture_;
  Op<ReplicatedLinear> key_, value_;
  Op<Activation> act_fn_;
};

FK_COMPOSITION(RWKV7FeedForward, ComposedRWKV7FeedForward);

}  // namespace
}  // namespace fk
