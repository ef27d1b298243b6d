#include "ops/l1/topk_softmax.h"

#include <cmath>

#include "ops/algebra/pieces.h"
#include "ops/l1/expert_choice.h"
#include "ops/register.h"

namespace fk {

OutputSpecs TopkSoftmax::outputs(const Init& init, Args given) {
  Shape shape{given[0]->size(0), init.top_k};
  return {TensorSpec{shape, given[0]->dtype() == DType::kF64 ? DType::kF64 : DType::kF32},
          TensorSpec{shape, DType::kI32}};
}

Inputs TopkSoftmax::inputs(const Init& init, const Workload& w) {
  check_top_k(init.num_experts, init.top_k);
  // Rounded to steps, so that in many rows equal logits compete for a place.
  return {InputSpec{{{w.num_tokens(), init.num_experts}, w.dtype}, Generator::normal_in_steps(0, 2, 0.125)}};
}

Cost TopkSoftmax::cost(const Init& init, const Workload& w) {
  auto T = static_cast<double>(w.num_tokens()), E = static_cast<double>(init.num_experts),
       k = static_cast<double>(init.top_k);
  // Every logit is compared once; exponentials of the chosen ones suffice where only their ratio counts.
  return {.read_bytes = T * E * static_cast<double>(dtype_size(w.dtype)),
          .written_bytes = 8 * T * k,
          .vector_flops = T * E};
}

Tolerance TopkSoftmax::tolerance(const Init&, DType) { return {}; }  // judge() has its own

std::vector<Case<TopkSoftmax>> TopkSoftmax::cases() {
  return {
      {"one expert", {.num_experts = 1, .top_k = 1}, Workload::tokens(1)},
      {"eight experts", {.num_experts = 8, .top_k = 2, .renormalize = true}, Workload::tokens(37)},
      {"odd", {.num_experts = 61, .top_k = 5}, Workload::tokens(19)},
      {"many experts", {.num_experts = 128, .top_k = 8, .renormalize = true}, Workload::tokens(70)},
      {"all experts", {.num_experts = 7, .top_k = 7, .renormalize = true}, Workload::tokens(3)},
      {"one of many", {.num_experts = 300, .top_k = 1}, Workload::tokens(2)},
      {"ten of 512", {.num_experts = 512, .top_k = 10, .renormalize = true}, Workload::tokens(5)},
      {"nine of 700", {.num_experts = 700, .top_k = 9}, Workload::tokens(5)},
      {"no tokens", {.num_experts = 8, .top_k = 2}, Workload::tokens(0)},
  };
}

namespace {

// e^(logit - largest) of every expert.
std::vector<double> exponentials(const View& logits, int64_t row) {
  std::vector<double> e(static_cast<size_t>(logits.size(1)));
  double largest = -INFINITY;
  for (int64_t i = 0; i < logits.size(1); ++i) largest = std::fmax(largest, get(logits, row, i));
  for (int64_t i = 0; i < logits.size(1); ++i) e[static_cast<size_t>(i)] = std::exp(get(logits, row, i) - largest);
  return e;
}

class TopkSoftmaxOracle final : public TopkSoftmax {
 public:
  using TopkSoftmax::TopkSoftmax;

  void forward(Context&, View gating_output, View topk_weights, View topk_ids) override {
    for (int64_t t = 0; t < gating_output.size(0); ++t) {
      std::vector<double> e = exponentials(gating_output, t);
      std::vector<bool> taken(e.size(), false);
      double sum = 0;
      if (!init_.renormalize)
        for (double x : e) sum += x;
      for (int64_t j = 0; j < init_.top_k; ++j) {
        int64_t best = -1;
        for (int64_t i = 0; i < init_.num_experts; ++i)
          if (!taken[static_cast<size_t>(i)] && (best < 0 || get(gating_output, t, i) > get(gating_output, t, best)))
            best = i;
        taken[static_cast<size_t>(best)] = true;
        set(topk_ids, static_cast<double>(best), t, j);
        set(topk_weights, e[static_cast<size_t>(best)], t, j);
        if (init_.renormalize) sum += e[static_cast<size_t>(best)];
      }
      for (int64_t j = 0; j < init_.top_k; ++j) set(topk_weights, get(topk_weights, t, j) / sum, t, j);
    }
  }
};

FK_OPERATOR(TopkSoftmax, TopkSoftmaxOracle);

void define_topk_softmax(const TopkSoftmax::Init& init, Definition& d) {
  Expr logits = d.arg("gating_output"), e = exp(logits - largest(logits, 1));
  algebra::Picks picks = pick_largest(logits, init.top_k);
  std::vector<Expr> parts;
  for (const Expr& chosen : picks.chosen) parts.push_back(sum(select(chosen, e, 0), 1));
  Expr weights = algebra::columns(parts);
  d.result("topk_weights", weights / sum(init.renormalize ? weights : e, 1));
  d.result("topk_ids", algebra::columns(picks.ids));
}
FK_DEFINITION(TopkSoftmax, define_topk_softmax);

}  // namespace

// Kernels may compare probabilities instead of logits, whose rounding can make neighbours equal or change their order.
// So an expert is right in a place if its probability is that of the oracle's expert there within rounding. The weights
// must be those of the experts chosen.
std::string TopkSoftmax::judge(const Init& init, Args call, Args reference) {
  // Of a weight: exponentials and sums in float, and the difference of two logits, which is rounded too.
  auto rounding = [](double e) { return e > 0 ? e * (1e-5 - 0x1p-22 * std::log(e)) : 0; };
  constexpr double kNegligible = 0x1p-126;
  const View &logits = *reference[0], &weights = *call[1], &ids = *call[2], &own_ids = *reference[2];
  for (int64_t t = 0; t < logits.size(0); ++t) {
    std::vector<double> e = exponentials(logits, t);
    std::vector<bool> taken(e.size(), false);
    double sum = 0;
    for (int64_t j = 0; j < init.top_k; ++j) {
      auto id = static_cast<int64_t>(get(ids, t, j)), own = static_cast<int64_t>(get(own_ids, t, j));
      if (id < 0 || id >= init.num_experts) return fmt::format("row {} has expert {}, of which there is none", t, id);
      auto at = static_cast<size_t>(id);
      if (taken[at]) return fmt::format("row {} has expert {} twice", t, id);
      taken[at] = true;
      double want = e[static_cast<size_t>(own)];
      if (id != own && (!(std::fabs(e[at] - want) <= rounding(want) + kNegligible) || (e[at] == want && want > 0)))
        return fmt::format("row {} has expert {} in place {}, where expert {} belongs", t, id, j, own);
      if (init.renormalize) sum += e[at];
    }
    if (!init.renormalize)
      for (double x : e) sum += x;
    for (int64_t j = 0; j < init.top_k; ++j) {
      double got = get(weights, t, j), of_id = e[static_cast<size_t>(get(ids, t, j))], want = of_id / sum;
      if (!(std::fabs(got - want) <= rounding(of_id) / sum + kNegligible))
        return fmt::format("row {} has the weight {} for expert {}, which should be {}", t, got, get(ids, t, j), want);
    }
  }
  return {};
}

}  // namespace fk
