#include "ops/l1/logit_penalties.h"

#include <algorithm>

#include "ops/algebra/pieces.h"
#include "ops/register.h"

namespace fk {

OutputSpecs LogitPenalties::outputs(const Init&, Args) { return {}; }

Inputs LogitPenalties::inputs(const Init&, const Workload& w) {
  using Kind = Generator::Kind;
  int64_t S = w.num_sequences(), N = w.num_tokens();
  // Slots of a cache are all different, as the tokens of a row must be.
  int64_t V = std::max(w.width, cache_blocks(w) * w.page_size);
  auto per_entry = [&](DType dtype, Generator g) { return InputSpec{{{N}, dtype}, g}; };
  auto per_row = [&](Generator g) { return InputSpec{{{S}, DType::kF32}, g}; };
  return {InputSpec{{{S, V}, w.dtype}, Generator::normal(0, 3)},
          InputSpec{{{S + 1}, DType::kI32}, Generator::metadata(Kind::kCuSeqlensQ)},
          per_entry(DType::kI64, Generator::metadata(Kind::kSlotMapping)),
          per_entry(DType::kI32, Generator::integers(0, 4)),
          per_entry(DType::kI32, Generator::integers(0, 2)),
          per_entry(DType::kF32, Generator::uniform_or(-5, 5, 0)),
          per_row(Generator::uniform_or(0.5, 2, 1)),
          per_row(Generator::uniform_or(-2, 2, 0)),
          per_row(Generator::uniform_or(-2, 2, 0))};
}

Cost LogitPenalties::cost(const Init&, const Workload& w) {
  auto N = static_cast<double>(w.num_tokens()), S = static_cast<double>(w.num_sequences());
  auto size = static_cast<double>(dtype_size(w.dtype));
  return {
      .read_bytes = N * (size + 8 + 4 + 4 + 4) + S * (4 + 4 + 4 + 4), .written_bytes = N * size, .vector_flops = 4 * N};
}

Tolerance LogitPenalties::tolerance(const Init&, DType dtype) { return rounding_tolerance(dtype, 4); }

std::vector<Case<LogitPenalties>> LogitPenalties::cases() {
  return {{"one entry", {}, Workload::batch({{1, 0}})},
          {"one row", {}, Workload::batch({{300, 0}})},
          {"ragged", {}, Workload::batch({{1, 0}, {1, 0}, {7, 0}, {513, 0}, {40, 0}})},
          {"many rows", {}, Workload::batch(std::vector<Sequence>(70, {3, 0}))}};
}

std::string_view LogitPenalties::refuse_call(Args args) const {
  auto is = [&](size_t i, DType dtype) { return args[i]->dtype() == dtype; };
  if (!is(1, DType::kI32) || !is(2, DType::kI64) || !is(3, DType::kI32) || !is(4, DType::kI32))
    return "starts, counts and in_prompt must be i32, and tokens i64";
  for (size_t i = 5; i < 9; ++i)
    if (!is(i, DType::kF32)) return "bias and penalties must be f32";
  for (size_t i = 1; i < 9; ++i)
    if (!args[i]->contiguous()) return "all arguments but the logits must be contiguous";
  if (!args[0]->rows_contiguous()) return "a row of logits must be contiguous";
  return {};
}

namespace {

class LogitPenaltiesOracle final : public LogitPenalties {
 public:
  using LogitPenalties::LogitPenalties;

  void forward(Context&, View logits, View starts, View tokens, View counts, View in_prompt, View bias, View repetition,
               View presence, View frequency) override {
    for (int64_t s = 0; s < logits.size(0); ++s)
      for (auto i = static_cast<int64_t>(get(starts, s)); i < static_cast<int64_t>(get(starts, s + 1)); ++i) {
        auto token = static_cast<int64_t>(get(tokens, i));
        double x = get(logits, s, token) + get(bias, i), count = get(counts, i), factor = get(repetition, s);
        if (count > 0 || get(in_prompt, i) != 0) x = x > 0 ? x / factor : x * factor;
        if (count > 0) x -= get(frequency, s) * count + get(presence, s);
        set(logits, x, s, token);
      }
  }
};

FK_OPERATOR(LogitPenalties, LogitPenaltiesOracle);

void define_logit_penalties(const LogitPenalties::Init&, Definition& d) {
  Expr logits = d.arg("logits"), starts = d.arg("starts"), count = d.arg("counts");
  const int64_t S = logits.size(0), V = logits.size(1), n = count.size(0);
  Expr row = algebra::segment_of(starts, n), flat = reshape(logits, {S * V});
  Expr inside = row < static_cast<double>(S);
  Expr at = select(inside, row * static_cast<double>(V) + d.arg("tokens"), -1);
  auto of_row = [&](const char* name) { return gather(reshape(d.arg(name), {S}), row); };
  Expr x = gather(flat, at) + d.arg("bias"), factor = of_row("repetition");
  Expr drawn = algebra::constant(0) < count, known = drawn | !equal(d.arg("in_prompt"), 0);
  x = select(known, select(algebra::constant(0) < x, x / factor, x * factor), x);
  x = select(drawn, x - (of_row("frequency") * count + of_row("presence")), x);
  d.result("logits", reshape(scatter(flat, at, cast(x, logits.dtype())), logits.shape()));
}
FK_DEFINITION(LogitPenalties, define_logit_penalties);

}  // namespace
}  // namespace fk
