#include "ops/l1/grouped_topk.h"

#include <algorithm>
#include <cmath>

#include "ops/algebra/pieces.h"
#include "ops/l1/expert_choice.h"
#include "ops/register.h"

namespace fk {

void GroupedTopk::check(const Init& init) {
  check_top_k(init.num_experts, init.top_k);
  if (init.scoring_func != "sigmoid" && init.scoring_func != "softmax")
    throw Error("Experts cannot be scored by '{}'; known are sigmoid and softmax.", init.scoring_func);
  const int64_t groups = init.num_expert_group;
  if (groups < 1 || init.num_experts % groups != 0)
    throw Error("{} experts cannot be divided into {} equal groups; choose num_expert_group accordingly.",
                init.num_experts, groups);
  if (init.topk_group < 1 || init.topk_group > groups || init.topk_group * (init.num_experts / groups) < init.top_k)
    throw Error("A token cannot have {} experts of {} out of {} groups of {} experts; choose topk_group accordingly.",
                init.top_k, init.topk_group, groups, init.num_experts / groups);
}

OutputSpecs GroupedTopk::outputs(const Init& init, Args given) {
  Shape shape{given[0]->size(0), init.top_k};
  return {TensorSpec{shape, given[0]->dtype() == DType::kF64 ? DType::kF64 : DType::kF32},
          TensorSpec{shape, DType::kI32}};
}

Inputs GroupedTopk::inputs(const Init& init, const Workload& w) {
  check(init);
  // Rounded to steps, so that in many rows equal logits compete for a place.
  InputSpec logits{{{w.num_tokens(), init.num_experts}, w.dtype}, Generator::normal_in_steps(0, 2, 0.125)};
  InputSpec bias{{{init.num_experts}, w.dtype == DType::kF64 ? DType::kF64 : DType::kF32},
                 Generator::normal_in_steps(0, 0.25, 0.0625)};
  return {logits, w.optional_inputs ? std::optional(bias) : std::nullopt};
}

Cost GroupedTopk::cost(const Init& init, const Workload& w) {
  auto T = static_cast<double>(w.num_tokens()), E = static_cast<double>(init.num_experts),
       k = static_cast<double>(init.top_k);
  // Every logit is compared once; where only their order and the chosen ones count, no other needs an exponential.
  return {.read_bytes = T * E * static_cast<double>(dtype_size(w.dtype)) + (w.optional_inputs ? 4 * E : 0),
          .written_bytes = 8 * T * k,
          .vector_flops = T * E};
}

Tolerance GroupedTopk::tolerance(const Init&, DType) { return {}; }  // judge() has its own

std::vector<Case<GroupedTopk>> GroupedTopk::cases() {
  return {
      {"one expert", {.num_experts = 1, .top_k = 1}, Workload::tokens(1)},
      {"one of many by sigmoid", {.num_experts = 16, .top_k = 1}, Workload::tokens(33)},
      {"one group, bias",
       {.num_experts = 128, .top_k = 8, .renormalize = true, .routed_scaling_factor = 2.5},
       Workload::tokens(37, true)},
      {"groups, bias",
       {.num_experts = 64,
        .top_k = 6,
        .renormalize = true,
        .num_expert_group = 8,
        .topk_group = 3,
        .routed_scaling_factor = 1.8},
       Workload::tokens(41, true)},
      {"groups without a bias, softmax",
       {.num_experts = 60, .top_k = 5, .num_expert_group = 5, .topk_group = 2, .scoring_func = "softmax"},
       Workload::tokens(29)},
      {"softmax, bias", {.num_experts = 61, .top_k = 5, .scoring_func = "softmax"}, Workload::tokens(19, true)},
      {"groups of one expert",
       {.num_experts = 12, .top_k = 3, .renormalize = true, .num_expert_group = 12, .topk_group = 4},
       Workload::tokens(9, true)},
      {"all experts",
       {.num_experts = 6, .top_k = 6, .renormalize = true, .num_expert_group = 2, .topk_group = 2},
       Workload::tokens(5, true)},
      {"no tokens", {.num_experts = 8, .top_k = 2}, Workload::tokens(0)},
  };
}

namespace {

// Scores of one token's experts, and what they are chosen by.
struct Scores {
  std::vector<double> weight, choice;
};

Scores scores_of(const GroupedTopk::Init& init, const View& logits, const OptView& bias, int64_t row) {
  Scores s;
  double largest = -INFINITY, sum = 0;
  for (int64_t i = 0; i < init.num_experts; ++i) largest = std::fmax(largest, get(logits, row, i));
  for (int64_t i = 0; i < init.num_experts; ++i) {
    double x = get(logits, row, i);
    s.weight.push_back(init.scoring_func == "sigmoid" ? 1 / (1 + std::exp(-x)) : std::exp(x - largest));
    sum += s.weight.back();
  }
  if (init.scoring_func == "softmax")
    for (double& w : s.weight) w /= sum;
  s.choice = s.weight;
  if (bias)
    for (int64_t i = 0; i < init.num_experts; ++i) s.choice[static_cast<size_t>(i)] += get(*bias, i);
  return s;
}

std::vector<double> group_values(const GroupedTopk::Init& init, const Scores& s, bool with_bias) {
  auto size = static_cast<std::ptrdiff_t>(init.num_experts / init.num_expert_group);
  std::vector<double> values;
  for (auto at = s.choice.begin(); at != s.choice.end(); at += size) {
    std::vector<double> group(at, at + size);
    std::sort(group.begin(), group.end(), std::greater<>());
    values.push_back(group[0] + (with_bias && size > 1 ? group[1] : 0));
  }
  return values;
}

// The n largest of those allowed, the largest first, of equal ones that with the lower index.
std::vector<int64_t> best_of(const std::vector<double>& values, int64_t n, std::vector<bool> allowed) {
  std::vector<int64_t> result;
  for (int64_t j = 0; j < n; ++j) {
    int64_t best = -1;
    for (size_t i = 0; i < values.size(); ++i)
      if (allowed[i] && (best < 0 || values[i] > values[static_cast<size_t>(best)])) best = static_cast<int64_t>(i);
    allowed[static_cast<size_t>(best)] = false;
    result.push_back(best);
  }
  return result;
}

std::vector<bool> experts_of_groups(const GroupedTopk::Init& init, const std::vector<bool>& groups) {
  std::vector<bool> experts;
  for (bool taken : groups) experts.insert(experts.end(), static_cast<size_t>(init.num_experts) / groups.size(), taken);
  return experts;
}

class GroupedTopkOracle final : public GroupedTopk {
 public:
  using GroupedTopk::GroupedTopk;

  void forward(Context&, View gating_output, OptView bias, View topk_weights, View topk_ids) override {
    auto groups = static_cast<size_t>(init_.num_expert_group);
    for (int64_t t = 0; t < gating_output.size(0); ++t) {
      Scores s = scores_of(init_, gating_output, bias, t);
      std::vector<bool> taken(groups, false), all(groups, true);
      for (int64_t g : best_of(group_values(init_, s, bias.has_value()), init_.topk_group, all))
        taken[static_cast<size_t>(g)] = true;
      std::vector<int64_t> ids = best_of(s.choice, init_.top_k, experts_of_groups(init_, taken));
      double sum = init_.renormalize ? 0 : 1;
      if (init_.renormalize)
        for (int64_t id : ids) sum += s.weight[static_cast<size_t>(id)];
      for (int64_t j = 0; j < init_.top_k; ++j) {
        int64_t id = ids[static_cast<size_t>(j)];
        set(topk_ids, static_cast<double>(id), t, j);
        set(topk_weights, s.weight[static_cast<size_t>(id)] / sum * init_.routed_scaling_factor, t, j);
      }
    }
  }
};

FK_OPERATOR(GroupedTopk, GroupedTopkOracle);

void define_grouped_topk(const GroupedTopk::Init& init, Definition& d) {
  Expr logits = d.arg("gating_output");
  const int64_t T = logits.size(0), groups = init.num_expert_group, size = init.num_experts / groups;
  const bool has_bias = d.has("e_score_correction_bias");
  Expr scores = init.scoring_func == "sigmoid" ? logistic(logits) : softmax(logits, 1);
  Expr choice = has_bias ? scores + d.arg("e_score_correction_bias") : scores;
  std::optional<Expr> allowed;  // experts of the best groups
  if (init.topk_group < groups) {
    Expr grouped = reshape(choice, {T, groups, size});
    algebra::Picks best = pick_largest(grouped, has_bias && size > 1 ? 2 : 1);
    Expr value = sum(select(best.chosen[0], grouped, 0), 2);
    if (best.chosen.size() > 1) value = value + sum(select(best.chosen[1], grouped, 0), 2);
    Expr taken;
    for (const Expr& chosen : pick_largest(reshape(value, {T, groups}), init.topk_group).chosen)
      taken = taken.id() == nullptr ? chosen : taken | chosen;
    allowed = reshape(broadcast(insert_axis(taken, 2), {T, groups, size}), logits.shape());
  }
  algebra::Picks picks = pick_largest(choice, init.top_k, allowed);
  std::vector<Expr> parts;
  for (const Expr& chosen : picks.chosen) parts.push_back(sum(select(chosen, scores, 0), 1));
  Expr weights = algebra::columns(parts);
  if (init.renormalize) weights = weights / sum(weights, 1);
  d.result("topk_weights", weights * init.routed_scaling_factor);
  d.result("topk_ids", algebra::columns(picks.ids));
}
FK_DEFINITION(GroupedTopk, define_grouped_topk);

// The error that a score in float may have, from exponentials, sums and the difference of two logits.
double rounding(double score) { return score > 0 ? score * (4e-6 - 0x1p-22 * std::log(score)) : 0; }
// The same of a score with its bias.
double choice_rounding(const Scores& s, size_t i) { return rounding(s.weight[i]) + 0x1p-22 * std::fabs(s.choice[i]); }

// The groups that a token's experts may come from. Where rounding may change which groups are best, those that the call
// used are taken first.
std::vector<bool> possible_groups(const GroupedTopk::Init& init, const Scores& s, bool with_bias,
                                  const std::vector<bool>& used) {
  std::vector<double> values = group_values(init, s, with_bias);
  std::vector<bool> taken(values.size(), false);
  std::vector<int64_t> order = best_of(values, init.num_expert_group, std::vector<bool>(values.size(), true));
  double last = values[static_cast<size_t>(order[static_cast<size_t>(init.topk_group - 1)])];
  double slack = 2 * rounding(1) + 0x1p-21 * std::fabs(last);
  if (init.scoring_func == "softmax" && !with_bias) slack = 2 * rounding(last);
  auto surely = [&](int64_t g) { return values[static_cast<size_t>(g)] > last + slack; };
  auto maybe = [&](int64_t g) { return std::fabs(values[static_cast<size_t>(g)] - last) <= slack; };
  int64_t left = init.topk_group;
  auto take_if = [&](auto&& wanted) {
    for (int64_t g : order)
      if (left > 0 && !taken[static_cast<size_t>(g)] && wanted(g)) {
        taken[static_cast<size_t>(g)] = true;
        --left;
      }
  };
  take_if(surely);
  take_if([&](int64_t g) { return maybe(g) && used[static_cast<size_t>(g)]; });
  take_if(maybe);
  return taken;
}

// Of experts with exactly equal scores, the one in place j comes after all with a lower index. They need not be next to
// each other: rounding may move a third expert from between or before them.
bool in_turn(const GroupedTopk::Init& init, const Scores& s, const std::vector<bool>& groups, const View& ids,
             int64_t row, int64_t j) {
  auto at = static_cast<size_t>(get(ids, row, j));
  if (!(s.choice[at] > 0)) return true;
  std::vector<bool> before(s.choice.size(), false), allowed = experts_of_groups(init, groups);
  for (int64_t i = 0; i < j; ++i) before[static_cast<size_t>(get(ids, row, i))] = true;
  for (size_t i = 0; i < at; ++i)
    if (allowed[i] && s.choice[i] == s.choice[at] && !before[i]) return false;
  return true;
}

}  // namespace

// Kernels compare scores in float, whose rounding can make neighbours equal or change their order. So an expert is
// right in a place if its score is that of the expert that belongs there within rounding. The weights must be those of
// the experts chosen.
std::string GroupedTopk::judge(const Init& init, Args call, Args reference) {
  constexpr double kNegligible = 0x1p-126;
  const View &logits = *reference[0], &weights = *call[2], &ids = *call[3];
  const OptView& bias = reference[1];
  for (int64_t t = 0; t < logits.size(0); ++t) {
    Scores s = scores_of(init, logits, bias, t);
    std::vector<bool> seen(s.choice.size(), false), used(static_cast<size_t>(init.num_expert_group), false);
    double sum = init.renormalize ? 0 : 1;
    for (int64_t j = 0; j < init.top_k; ++j) {
      auto id = static_cast<int64_t>(get(ids, t, j));
      if (id < 0 || id >= init.num_experts) return fmt::format("row {} has expert {}, of which there is none", t, id);
      if (seen[static_cast<size_t>(id)]) return fmt::format("row {} has expert {} twice", t, id);
      seen[static_cast<size_t>(id)] = true;
      used[static_cast<size_t>(id / (init.num_experts / init.num_expert_group))] = true;
      if (init.renormalize) sum += s.weight[static_cast<size_t>(id)];
    }
    std::vector<bool> groups = possible_groups(init, s, bias.has_value(), used);
    std::vector<int64_t> own = best_of(s.choice, init.top_k, experts_of_groups(init, groups));
    for (int64_t j = 0; j < init.top_k; ++j) {
      auto at = static_cast<size_t>(get(ids, t, j)), wanted = static_cast<size_t>(own[static_cast<size_t>(j)]);
      double got = s.choice[at], want = s.choice[wanted];
      bool in_group = groups[at / static_cast<size_t>(init.num_experts / init.num_expert_group)];
      double slack = std::max(choice_rounding(s, at), choice_rounding(s, wanted)) + kNegligible;
      if (at != wanted && (!in_group || !(std::fabs(got - want) <= slack) || !in_turn(init, s, groups, ids, t, j)))
        return fmt::format("row {} has expert {} in place {}, where expert {} belongs", t, at, j, wanted);
      double weight = get(weights, t, j), exact = s.weight[at] / sum * init.routed_scaling_factor;
      if (!(std::fabs(weight - exact) <=
            2 * rounding(s.weight[at]) / sum * std::fabs(init.routed_scaling_factor) + kNegligible))
        return fmt::format("row {} has the weight {} for expert {}, which should be {}", t, weight, at, exact);
    }
  }
  return {};
}

}  // namespace fk
