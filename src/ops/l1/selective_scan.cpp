#include "ops/l1/selective_scan.h"

#include <vector>

#include "ops/algebra/pieces.h"
#include "ops/l1/recurrence.h"
#include "ops/refusals.h"
#include "ops/register.h"

namespace fk {

std::vector<ParamSpec> SelectiveScan::params(const Init& init) {
  return {{"A_log", {{init.dim, init.state_size}, init.dtype}},
          {"D", {{init.dim}, init.dtype}},
          {"dt_proj.bias", {{init.dim}, init.dtype}}};
}

StateSpec SelectiveScan::recurrent_state(const Init& init) {
  return {"ssm_state", StateKind::kPerSequence, {init.dim, init.state_size}, DType::kF32};
}

OutputSpecs SelectiveScan::outputs(const Init&, Args given) {
  return {TensorSpec{given[0]->shape(), given[0]->dtype()}};
}

Inputs SelectiveScan::inputs(const Init& init, const Workload& w) {
  using Kind = Generator::Kind;
  int64_t S = w.num_sequences(), T = w.num_tokens();
  DType wide = w.dtype == DType::kF64 ? DType::kF64 : DType::kF32;
  auto rows = [&](int64_t width, double mean) { return InputSpec{{{T, width}, w.dtype}, Generator::normal(mean, 1)}; };
  InputSpec states{{{fk::state_slots(w), init.dim, init.state_size}, wide}, Generator::normal()};
  InputSpec slots{{{S}, DType::kI32}, Generator::metadata(Kind::kStateSlots).or_special()};
  InputSpec offsets{{{S + 1}, DType::kI32}, Generator::metadata(Kind::kCuSeqlensQ)};
  // Steps of 0.02 to 0.3: a state remembers some ten tokens.
  return {rows(init.dim, 0),
          rows(init.dim, -2.5),
          rows(init.state_size, 0),
          rows(init.state_size, 0),
          rows(init.dim, 0),
          states,
          slots,
          needs_offsets(w) ? std::optional(offsets) : std::nullopt};
}

Cost SelectiveScan::cost(const Init& init, const Workload& w) {
  auto D = static_cast<double>(init.dim), N = static_cast<double>(init.state_size),
       T = static_cast<double>(w.num_tokens()), size = static_cast<double>(dtype_size(w.dtype));
  double states = 0;
  for (const Sequence& s : w.sequences) states += s.query_len > 0 ? D * N : 0;
  return {.read_bytes = (T * (3 * D + 2 * N) + D * (N + 2)) * size + 4 * states,
          .written_bytes = T * D * size + 4 * states,
          .vector_flops = T * D * (6 * N + 6)};
}

Tolerance SelectiveScan::tolerance(const Init& init, DType dtype) {
  // Every step rounds the state once, and a state remembers the roundings of some hundred steps.
  return rounding_tolerance(dtype, static_cast<double>(init.state_size) * 256);
}

std::vector<Case<SelectiveScan>> SelectiveScan::cases() {
  return {
      {"one channel", {.dim = 1, .state_size = 1}, Workload::tokens(1)},
      {"step", {.dim = 77, .state_size = 16}, Workload::batch({{1, 5}, {1, 0}, {1, 40}})},
      {"step, odd states", {.dim = 40, .state_size = 7}, Workload::batch({{1, 1}, {1, 9}})},
      {"step, wide", {.dim = 1536, .state_size = 16}, Workload::batch({{1, 3}})},
      {"ragged", {.dim = 50, .state_size = 16}, Workload::batch({{1, 4}, {2, 7}, {3, 0}, {37, 20}}, true)},
      {"long", {.dim = 35, .state_size = 8}, Workload::batch({{150, 3}, {67, 0}}, true)},
      {"very long", {.dim = 16, .state_size = 16}, Workload::batch({{700, 1}}, true)},
      {"odd states", {.dim = 19, .state_size = 5}, Workload::batch({{33, 2}, {1, 2}}, true)},
      {"many states", {.dim = 24, .state_size = 64}, Workload::batch({{21, 2}, {5, 0}}, true)},
      {"a sequence without tokens", {.dim = 16, .state_size = 4}, Workload::batch({{0, 5}, {3, 5}, {0, 0}}, true)},
      {"no tokens", {.dim = 8, .state_size = 16}, Workload::batch({{0, 3}}, true)},
  };
}

std::string_view SelectiveScan::refuse_call(Args args) const {
  if (args[5]->dtype() != DType::kF32) return "ssm_state must be f32";
  std::string_view why = refuse_state(*args[5], *args[6], args[7], args[0]->size(0));
  return !why.empty() ? why : refuse_rows({&args[0], &args[1], &args[2], &args[3], &args[4], &args[8]});
}

namespace {

class SelectiveScanOracle final : public SelectiveScan {
 public:
  using SelectiveScan::SelectiveScan;

  void forward(Context& ctx, View u, View delta, View B, View C, View z, View ssm_state, View state_slots,
               OptView cu_seqlens, View out) override {
    int64_t N = init_.state_size;
    ctx.pool.parallel_for(state_slots.size(0) * init_.dim, 1, [&](int64_t begin, int64_t end) {
      for (int64_t item = begin; item < end; ++item) {
        int64_t d = item % init_.dim;
        RecurrentSequence sequence = recurrent_sequence(state_slots, cu_seqlens, item / init_.dim);
        std::vector<double> h(static_cast<size_t>(N), 0);
        for (int64_t n = 0; sequence.slot >= 0 && n < N; ++n)
          h[static_cast<size_t>(n)] = get(ssm_state, sequence.slot, d, n);
        for (int64_t t = sequence.first; t < sequence.last; ++t) {
          double dt = softplus_of(get(delta, t, d) + get(dt_bias(), d)), x = get(u, t, d), y = get(skip(), d) * x;
          for (int64_t n = 0; n < N; ++n) {
            double& state = h[static_cast<size_t>(n)];
            state = std::exp(-dt * std::exp(get(A_log(), d, n))) * state + dt * get(B, t, n) * x;
            y += get(C, t, n) * state;
          }
          set(out, y * silu_of(get(z, t, d)), t, d);
        }
        for (int64_t n = 0; sequence.slot >= 0 && n < N; ++n)
          set(ssm_state, h[static_cast<size_t>(n)], sequence.slot, d, n);
      }
    });
  }
};

FK_OPERATOR(SelectiveScan, SelectiveScanOracle);

void define_selective_scan(const SelectiveScan::Init& init, Definition& d) {
  if (d.has("cu_seqlens")) return d.leave_opaque("a recurrence over the tokens of a sequence");
  Expr u = d.arg("u"), state = d.arg("ssm_state"), slots = d.arg("state_slots"), z = d.arg("z");
  const int64_t T = u.size(0);
  auto column = [&](const Expr& x) { return insert_axis(x, 2); };            // [T, D, 1]
  auto row = [&](const char* name) { return insert_axis(d.arg(name), 1); };  // [T, 1, N]
  Expr dt = column(algebra::softplus(d.arg("delta") + d.arg("dt_proj.bias")));
  Expr h = exp(-dt * exp(d.arg("A_log"))) * gather(state, slots) + dt * row("B") * column(u);
  Expr y = reshape(sum(row("C") * h, 2), {T, init.dim}) + d.arg("D") * u;
  d.result("out", y * z * logistic(z));
  d.result("ssm_state", scatter(state, slots, cast(h, state.dtype())));
}
FK_DEFINITION(SelectiveScan, define_selective_scan);

}  // namespace
}  // namespace fk
