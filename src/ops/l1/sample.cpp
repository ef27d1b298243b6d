#include "ops/l1/sample.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/error.h"
#include "core/rng.h"
#include "ops/register.h"

namespace fk {

OutputSpecs Sample::outputs(const Init&, Args given) { return {TensorSpec{{given[0]->size(0)}, DType::kI64}}; }

Inputs Sample::inputs(const Init&, const Workload& w) {
  int64_t S = w.num_tokens();
  auto per_row = [&](DType dtype, Generator g) { return InputSpec{{{S}, dtype}, g}; };
  return {InputSpec{{{S, w.width}, w.dtype}, Generator::normal(0, 3)},
          per_row(DType::kF32, Generator::uniform_or(0.3, 1.7, 0)),
          per_row(DType::kI32, Generator::integers_of_all_sizes(0, w.width + 1)),  // no small list is enough
          per_row(DType::kF32, Generator::uniform_or(0.2, 1.0, 1)),
          per_row(DType::kF32, Generator::uniform_or(0.0, 0.5, 0)),
          per_row(DType::kI64, Generator::integers(0, int64_t{1} << 40)),
          per_row(DType::kI64, Generator::integers(0, 1000))};
}

Cost Sample::cost(const Init&, const Workload& w) {
  auto n = static_cast<double>(w.num_tokens() * w.width);
  // Every logit is compared once. Those that are then exponentiated and added up may be few: the largest ones.
  constexpr double kParameters = 4 + 4 + 4 + 4 + 8 + 8;  // of a row
  auto rows = static_cast<double>(w.num_tokens());
  return {.read_bytes = n * static_cast<double>(dtype_size(w.dtype)) + kParameters * rows,
          .written_bytes = 8 * rows,
          .vector_flops = n};
}

Tolerance Sample::tolerance(const Init&, DType) { return {}; }

std::vector<Case<Sample>> Sample::cases() {
  return {{"one token", {}, Workload::rows(1, 1)},
          {"small vocabulary", {}, Workload::rows(40, 7)},
          {"odd vocabulary", {}, Workload::rows(64, 331)},
          {"large vocabulary", {}, Workload::rows(3, 5003)}};
}

std::string_view Sample::refuse_call(Args args) const {
  auto is = [&](size_t i, DType dtype) { return args[i]->dtype() == dtype; };
  if (!is(1, DType::kF32) || !is(3, DType::kF32) || !is(4, DType::kF32))
    return "temperature, top_p and min_p must be f32";
  if (!is(2, DType::kI32)) return "top_k must be i32";
  if (!is(5, DType::kI64) || !is(6, DType::kI64) || !is(7, DType::kI64)) return "seeds, steps and out must be i64";
  return {};
}

namespace {

// Probabilities after temperature and filters, zero where a token was dropped; they need not add up to one.
std::vector<double> filtered(Args call, int64_t row) {
  const View& logits = *call[0];
  int64_t V = logits.size(1);
  double temperature = get(*call[1], row), top_p = get(*call[3], row), min_p = get(*call[4], row);
  auto top_k = static_cast<int64_t>(get(*call[2], row));
  std::vector<double> p(static_cast<size_t>(V));
  double largest = -INFINITY;
  for (int64_t i = 0; i < V; ++i) largest = std::max(largest, get(logits, row, i));
  for (int64_t i = 0; i < V; ++i) p[i] = std::exp((get(logits, row, i) - largest) / temperature);
  for (double& x : p)
    if (x < min_p) x = 0;  // the largest is exp(0) = 1

  std::vector<int64_t> order(static_cast<size_t>(V));
  std::iota(order.begin(), order.end(), int64_t{0});
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return p[a] > p[b]; });
  if (top_k > 0)
    for (int64_t i = top_k; i < V; ++i) p[order[i]] = 0;
  double total = std::accumulate(p.begin(), p.end(), 0.0), running = 0;
  for (int64_t i : order) {
    if (top_p < 1 && running > 0 && running >= top_p * total) p[i] = 0;  // the largest always stays
    running += p[i];
  }
  return p;
}

double drawn(Args call, int64_t row) {
  // All 64 bits of a seed are used; a double would lose some.
  auto integer = [&](size_t arg) {
    return static_cast<uint64_t>(call[arg]->ptr<int64_t>()[row * call[arg]->stride(0)]);
  };
  return Stream(integer(5)).uniform(integer(6));
}

class SampleOracle final : public Sample {
 public:
  using Sample::Sample;

  void forward(Context&, View logits, View temperature, View top_k, View top_p, View min_p, View seeds, View steps,
               View out) override {
    const OptView call[] = {logits, temperature, top_k, top_p, min_p, seeds, steps};
    for (int64_t row = 0; row < logits.size(0); ++row) {
      int64_t token = 0;
      if (get(temperature, row) == 0) {
        for (int64_t i = 1; i < logits.size(1); ++i)
          if (get(logits, row, i) > get(logits, row, token)) token = i;
      } else {
        std::vector<double> p = filtered(call, row);
        double left = drawn(call, row) * std::accumulate(p.begin(), p.end(), 0.0);
        for (int64_t i = 0; i < logits.size(1); ++i) {
          if (p[i] == 0) continue;
          token = i;
          if (left < p[i]) break;
          left -= p[i];
        }
      }
      set(out, static_cast<double>(token), row);
    }
  }
};

FK_OPERATOR(Sample, SampleOracle);

}  // namespace

// Float arithmetic may move a boundary a little, so a token is right when the number drawn lies in its interval or
// within rounding of it. A greedy row must be the oracle's.
std::string Sample::judge(const Init&, Args call, Args reference) {
  constexpr double kSlack = 1e-4;
  const View& out = *call[7];
  for (int64_t row = 0; row < out.size(0); ++row) {
    auto token = static_cast<int64_t>(get(out, row));
    if (token < 0 || token >= reference[0]->size(1))
      return fmt::format("row {} drew token {}, which does not exist", row, token);
    if (token == static_cast<int64_t>(get(*reference[7], row))) continue;
    if (get(*reference[1], row) == 0) return fmt::format("row {} is greedy and drew {}", row, token);
    std::vector<double> p = filtered(reference, row);
    double total = std::accumulate(p.begin(), p.end(), 0.0);
    double before = std::accumulate(p.begin(), p.begin() + token, 0.0) / total, u = drawn(reference, row);
    // A token on the edge of a filter may be in one set and not in the other; its interval is then empty here.
    if (!(u >= before - kSlack && u <= before + p[token] / total + kSlack))
      return fmt::format("row {} drew token {} for u = {}, whose interval is [{}, {}]", row, token, u, before,
                         before + p[token] / total);
  }
  return {};
}

}  // namespace fk
