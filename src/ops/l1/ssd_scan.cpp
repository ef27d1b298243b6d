#include "ops/l1/ssd_scan.h"

#include <vector>

#include "ops/algebra/pieces.h"
#include "ops/l1/recurrence.h"
#include "ops/refusals.h"
#include "ops/register.h"

namespace fk {

std::vector<ParamSpec> SSDScan::params(const Init& init) {
  TensorSpec heads{{init.num_heads}, init.dtype};
  return {{"A_log", heads}, {"D", heads}, {"dt_bias", heads}};
}

StateSpec SSDScan::recurrent_state(const Init& init) {
  return {"ssm_state", StateKind::kPerSequence, {init.num_heads, init.head_dim, init.state_size}, DType::kF32};
}

OutputSpecs SSDScan::outputs(const Init&, Args given) { return {TensorSpec{given[0]->shape(), given[0]->dtype()}}; }

Inputs SSDScan::inputs(const Init& init, const Workload& w) {
  using Kind = Generator::Kind;
  int64_t S = w.num_sequences(), T = w.num_tokens();
  DType wide = w.dtype == DType::kF64 ? DType::kF64 : DType::kF32;
  auto rows = [&](int64_t width, double mean) { return InputSpec{{{T, width}, w.dtype}, Generator::normal(mean, 1)}; };
  InputSpec states{{{fk::state_slots(w), init.num_heads, init.head_dim, init.state_size}, wide}, Generator::normal()};
  InputSpec slots{{{S}, DType::kI32}, Generator::metadata(Kind::kStateSlots).or_special()};
  InputSpec offsets{{{S + 1}, DType::kI32}, Generator::metadata(Kind::kCuSeqlensQ)};
  // Steps of 0.02 to 0.3: a state remembers some ten tokens.
  return {rows(init.num_heads * init.head_dim, 0),
          rows(init.num_heads, -2.5),
          rows(init.n_groups * init.state_size, 0),
          rows(init.n_groups * init.state_size, 0),
          states,
          slots,
          needs_offsets(w) ? std::optional(offsets) : std::nullopt};
}

Cost SSDScan::cost(const Init& init, const Workload& w) {
  auto H = static_cast<double>(init.num_heads), X = H * static_cast<double>(init.head_dim),
       N = static_cast<double>(init.state_size), G = static_cast<double>(init.n_groups),
       T = static_cast<double>(w.num_tokens()), size = static_cast<double>(dtype_size(w.dtype));
  double states = 0;
  for (const Sequence& s : w.sequences) states += s.query_len > 0 ? X * N : 0;
  return {.read_bytes = (T * (X + H + 2 * G * N) + 3 * H) * size + 4 * states,
          .written_bytes = T * X * size + 4 * states,
          // The chunk form is products of matrices: at least x B into the state and C h out of it.
          .matrix_flops = 4 * T * X * N,
          .vector_flops = 2 * T * X};
}

Tolerance SSDScan::tolerance(const Init& init, DType dtype) {
  // Every step rounds the state once, and a state remembers the roundings of some hundred steps. The chunk form rounds
  // x, B and C times a decay to dtype before it multiplies them.
  Tolerance t = rounding_tolerance(dtype, static_cast<double>(init.state_size) * 256);
  return {t.relative, t.of_scale + dtype_epsilon(dtype)};
}

std::vector<Case<SSDScan>> SSDScan::cases() {
  return {
      {"one head", {.num_heads = 1, .head_dim = 1, .state_size = 1}, Workload::tokens(1)},
      {"step",
       {.num_heads = 6, .head_dim = 16, .state_size = 32, .n_groups = 2},
       Workload::batch({{1, 5}, {1, 0}, {1, 40}})},
      {"step, odd", {.num_heads = 3, .head_dim = 7, .state_size = 19}, Workload::batch({{1, 1}, {1, 9}})},
      {"step, heads of 64",
       {.num_heads = 4, .head_dim = 64, .state_size = 128, .n_groups = 2},
       Workload::batch({{1, 3}, {1, 8}})},
      {"ragged",
       {.num_heads = 4, .head_dim = 16, .state_size = 16, .n_groups = 2},
       Workload::batch({{1, 4}, {2, 7}, {3, 0}, {37, 20}}, true)},
      {"long, heads of 64",
       {.num_heads = 2, .head_dim = 64, .state_size = 128},
       Workload::batch({{150, 3}, {67, 0}, {64, 1}}, true)},
      {"heads of 64, states of 64",
       {.num_heads = 4, .head_dim = 64, .state_size = 64, .n_groups = 4},
       Workload::batch({{70, 3}, {1, 3}}, true)},
      {"very long", {.num_heads = 1, .head_dim = 16, .state_size = 16}, Workload::batch({{700, 1}}, true)},
      {"odd",
       {.num_heads = 3, .head_dim = 5, .state_size = 21, .n_groups = 3},
       Workload::batch({{33, 2}, {1, 2}}, true)},
      {"a sequence without tokens",
       {.num_heads = 2, .head_dim = 8, .state_size = 16},
       Workload::batch({{0, 5}, {3, 5}, {0, 0}}, true)},
      {"no tokens", {.num_heads = 2, .head_dim = 8, .state_size = 16}, Workload::batch({{0, 3}}, true)},
  };
}

std::string_view SSDScan::refuse_call(Args args) const {
  if (init_.n_groups < 1 || init_.num_heads % init_.n_groups != 0) return "num_heads must be a multiple of n_groups";
  if (args[4]->dtype() != DType::kF32) return "ssm_state must be f32";
  std::string_view why = refuse_state(*args[4], *args[5], args[6], args[0]->size(0));
  return !why.empty() ? why : refuse_rows({&args[0], &args[1], &args[2], &args[3], &args[7]});
}

namespace {

class SSDScanOracle final : public SSDScan {
 public:
  using SSDScan::SSDScan;

  void forward(Context& ctx, View x, View dt, View B, View C, View ssm_state, View state_slots, OptView cu_seqlens,
               View out) override {
    int64_t H = init_.num_heads, P = init_.head_dim, N = init_.state_size;
    ctx.pool.parallel_for(state_slots.size(0) * H * P, 1, [&](int64_t begin, int64_t end) {
      for (int64_t item = begin; item < end; ++item) {
        int64_t p = item % P, head = item / P % H, group = head / (H / init_.n_groups) * N;
        RecurrentSequence sequence = recurrent_sequence(state_slots, cu_seqlens, item / (H * P));
        std::vector<double> h(static_cast<size_t>(N), 0);
        for (int64_t n = 0; sequence.slot >= 0 && n < N; ++n)
          h[static_cast<size_t>(n)] = get(ssm_state, sequence.slot, head, p, n);
        for (int64_t t = sequence.first; t < sequence.last; ++t) {
          double step = softplus_of(get(dt, t, head) + get(dt_bias(), head)), input = get(x, t, head * P + p);
          double decay = std::exp(-step * std::exp(get(A_log(), head))), y = get(skip(), head) * input;
          for (int64_t n = 0; n < N; ++n) {
            double& state = h[static_cast<size_t>(n)];
            state = decay * state + step * input * get(B, t, group + n);
            y += get(C, t, group + n) * state;
          }
          set(out, y, t, head * P + p);
        }
        for (int64_t n = 0; sequence.slot >= 0 && n < N; ++n)
          set(ssm_state, h[static_cast<size_t>(n)], sequence.slot, head, p, n);
      }
    });
  }
};

FK_OPERATOR(SSDScan, SSDScanOracle);

void define_ssd_scan(const SSDScan::Init& init, Definition& d) {
  if (d.has("cu_seqlens")) return d.leave_opaque("a recurrence over the tokens of a sequence");
  Expr state = d.arg("ssm_state"), slots = d.arg("state_slots");
  const int64_t T = slots.size(0), H = init.num_heads, P = init.head_dim, N = init.state_size;
  auto of_heads = [&](const char* name) { return reshape(d.arg(name), {H, 1, 1}); };
  auto of_groups = [&](const char* name) {  // [T, H, 1, N]
    return insert_axis(algebra::repeat_heads(reshape(d.arg(name), {T, init.n_groups, N}), H), 2);
  };
  Expr x = reshape(d.arg("x"), {T, H, P, 1});
  Expr dt = algebra::softplus(reshape(d.arg("dt"), {T, H, 1, 1}) + of_heads("dt_bias"));
  Expr h = exp(-dt * exp(of_heads("A_log"))) * gather(state, slots) + dt * x * of_groups("B");
  Expr y = sum(of_groups("C") * h, 3) + of_heads("D") * x;
  d.result("out", reshape(y, {T, H * P}));
  d.result("ssm_state", scatter(state, slots, cast(h, state.dtype())));
}
FK_DEFINITION(SSDScan, define_ssd_scan);

}  // namespace
}  // namespace fk
