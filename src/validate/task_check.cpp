#include "validate/task_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>

#include "sandbox/call_memory.h"
#include "validate/call_check.h"
#include "validate/input_families.h"
#include "validate/reference.h"

namespace fk {
namespace {

using Rule = TaskFinding::Rule;
using Clock = std::chrono::steady_clock;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr uint64_t kDraws = 64;  // for an input that may change an index
// In units of the bounds: sums of the f64 reference in another order differ by less, weights with any effect by more.
constexpr double kRoundingOfReference = 1e-5;

BuildOptions oracles_only() {
  BuildOptions options;
  options.oracle = true;
  return options;
}

template <int kTimes>
void times(const View& v, const Stream&) {
  size_t step = dtype_size(v.dtype());
  auto* at = static_cast<std::byte*>(v.data());
  for (int64_t i = 0; i < v.numel(); ++i, at += step)
    store_element(at, v.dtype(), kTimes * load_element(at, v.dtype()));
}
constexpr InputFamily kDoubledInputs = {"doubled", times<2>};
constexpr InputFamily kDoubledWeights = {"doubled", nullptr, times<2>};

// With another sign and size: a norm's weights hardly differ between two seeds. Not all by one factor: a norm behind
// the weights would cancel it, and a product of two numbers that both have the weight as a factor cancels the sign.
void others(const View& v, const Stream& stream) {
  size_t step = dtype_size(v.dtype());
  auto* at = static_cast<std::byte*>(v.data());
  for (int64_t i = 0; i < v.numel(); ++i, at += step) {
    const int factor = stream.u32(static_cast<uint64_t>(i)) % 2 == 0 ? -2 : -4;
    store_element(at, v.dtype(), factor * load_element(at, v.dtype()));
  }
}
constexpr InputFamily kOtherWeights = {"others", nullptr, others};

bool is_metadata(const InputSpec& spec) { return spec.generator.kind > Generator::Kind::kConstant; }

// A tensor like the reference, filled by `value(i)`.
template <class Value>
Tensor like(const View& reference, Value&& value) {
  Tensor t(reference.spec());
  size_t step = dtype_size(reference.dtype());
  auto* at = static_cast<std::byte*>(t.view().data());
  for (int64_t i = 0; i < reference.numel(); ++i, at += step) store_element(at, reference.dtype(), value(i));
  return t;
}

double element(const View& v, int64_t i) {
  return load_element(static_cast<const std::byte*>(v.data()) + static_cast<size_t>(i) * dtype_size(v.dtype()),
                      v.dtype());
}

class TaskCheck {
 public:
  TaskCheck(const OperatorInfo& info, const Fields& init, const Workload& workload, Subject& baseline,
            const TaskCheckOptions& options)
      : options_(options),
        baseline_(baseline),
        tree_(info.build(init, oracles_only())),
        workload_(shrink(info, init, workload, options.oracle_seconds)),
        reference_(info, init, workload_),
        shared_params_(options.inputs->params(*tree_, options.seed)),
        params_(*shared_params_),
        data_(make(options.seed)) {}

  TaskReport run() {
    std::optional<Failure> failed = baseline_.bind(params_);
    if (failed) {
      find(Rule::kBaseline, fmt::format("The baseline could not be bound: {}", failed->sentence));
      return std::move(report_);
    }
    reference_.bind(params_);
    CallOutcome outcome = baseline_.call(data_, Placement::kNew);
    truth_ = std::make_unique<CallTruth>(*tree_, workload_, data_, reference_, outcome, false);
    if (!truth_->unusable().empty()) {
      find(Rule::kBaseline, fmt::format("The baseline cannot be judged: {}.", truth_->unusable()));
      return std::move(report_);
    }
    honest_margin(outcome);
    cheat_margin();
    constant();
    inputs();
    scale();
    weights();
    return std::move(report_);
  }

 private:
  void find(Rule rule, std::string sentence) { report_.findings.push_back({rule, std::move(sentence)}); }

  CallData make(uint64_t seed) const { return options_.inputs->make(*tree_, workload_, seed); }
  CallData same_inputs() const { return make(options_.seed); }
  uint64_t other_seed() const { return options_.seed ^ 0x9e3779b97f4a7c15u; }
  // Of another seed. Every input is replaced by it in turn, and drawing it takes longer than the reference of many
  // calls.
  CallData& other_data() {
    if (!other_data_) other_data_ = make(other_seed());
    return *other_data_;
  }

  bool in_time(std::string_view what) {
    if (std::chrono::duration<double>(Clock::now() - start_).count() < options_.seconds) return true;
    report_.notes.push_back(fmt::format("Whether {} matters was left out for lack of time.", what));
    return false;
  }

  // Distance between the reference of other data and that of the task, in units of the bounds.
  double distance(const CallData& data) {
    Expected moved = reference_.compute(data);
    double most = 0;
    for (const CallTruth::Item& item : truth_->items()) {
      const Tensor& t =
          item.state >= 0 ? moved.states[static_cast<size_t>(item.state)] : *moved.args[static_cast<size_t>(item.arg)];
      most = std::max(most, compare(t, item.reference, item.bounds).ratio);
    }
    return most;
  }

  void honest_margin(const CallOutcome& outcome) {
    report_.honest_margin = kInfinity;
    for (const CallTruth::Item& item : truth_->items()) {
      if (tree_->info().judge != nullptr && !item.is_state) continue;
      double ratio = compare(*written_tensor(outcome, item), item.reference, item.bounds).ratio;
      report_.honest_margin = std::min(report_.honest_margin, ratio > 0 ? 1 / ratio : kInfinity);
    }
    if (!(report_.honest_margin >= options_.honest_margin))
      find(Rule::kHonestMargin,
           fmt::format("The bounds are only {:.2f} times the baseline's own error, which leaves honest kernels too "
                       "little room.",
                       report_.honest_margin));
  }

  void cheat_margin() {
    report_.cheat_margin = kInfinity;
    for (const CallTruth::Item& item : truth_->items()) {
      if (item.reference.numel() == 0) continue;
      // A state that such a call only reads (one written at prefill) does not change.
      bool only_read = item.state >= 0 && compare(*item.before, item.reference, Bounds::exact()).ok();
      if (item.before != nullptr && !only_read)
        cheat(item, "leaving it as it was", [&](int64_t i) { return element(*item.before, i); });
      if (item.is_state) continue;
      cheat(item, "zeros", [](int64_t) { return 0.0; });
      if (dtype_size(item.spec.dtype) >= 4 && dtype_size(workload_.dtype) >= 4 && dtype_is_float(item.spec.dtype) &&
          !rounds_activations())
        cheat(item, "lower precision", [&](int64_t i) {
          return static_cast<double>(static_cast<float>(bf16(static_cast<float>(element(item.reference, i)))));
        });
      for (size_t k = 0; k < data_.given.size(); ++k)
        if (const auto& input = data_.given[k]; input && input->view().shape() == item.reference.shape())
          cheat(item, fmt::format("a copy of '{}'", tree_->info().args[k].name),
                [&](int64_t i) { return element(*input, i); });
    }
    if (!(report_.cheat_margin >= options_.cheat_margin))
      find(Rule::kCheatMargin, fmt::format("{} would be off by only {:.2f} of what is allowed.", report_.cheapest_cheat,
                                           report_.cheat_margin));
  }

  // A product with quantised weights may round its other factor to 8 bits, so fewer than those of f32 are no cheat.
  bool rounds_activations() const {
    std::vector<ParamSpec> specs = collect_params(*tree_);
    return std::any_of(specs.begin(), specs.end(), [](const ParamSpec& p) { return !p.format.empty() || p.fill; });
  }

  template <class Value>
  void cheat(const CallTruth::Item& item, std::string_view name, Value&& value) {
    double ratio = compare(like(item.reference, value), item.reference, item.bounds).ratio;
    if (ratio >= report_.cheat_margin) return;
    report_.cheat_margin = ratio;
    report_.cheapest_cheat = fmt::format("{}: {}", item.name, name);
  }

  // If there are many, generating others would take longer than everything else.
  std::vector<Tensor> changed(const InputFamily& family) const {
    std::vector<Tensor> params;
    for (const Tensor& p : params_) params.push_back(copy_of(p));
    apply_to_weights(family, collect_params(*tree_), params, options_.seed);
    return params;
  }

  void constant() {
    reference_.bind(changed(kOtherWeights));
    if (!(distance(other_data()) >= options_.moved))
      find(Rule::kConstant, "The output is the same whatever the inputs are.");
    reference_.bind(params_);
  }

  void inputs() {
    Inputs specs = options_.inputs->specs(*tree_, workload_);
    for (size_t i = 0; i < specs.size(); ++i) {
      if (!specs[i] || is_metadata(*specs[i]) || !in_time(tree_->info().args[i].name)) continue;
      // Few changes of the input change an index, so operators with integer outputs get several attempts.
      double moved = 0;
      bool varies = false;
      for (uint64_t k = 0; k < (only_integers() ? kDraws : 1) && !(moved >= options_.moved); ++k) {
        std::optional<CallData> drawn;
        if (k > 0) drawn = make(other_seed() + k);
        std::optional<Tensor>& other = (drawn ? *drawn : other_data()).given[i];
        varies =
            varies || dtype_is_float(other->view().dtype()) || !compare(*other, *data_.given[i], Bounds::exact()).ok();
        std::swap(data_.given[i], other);
        moved = distance(data_);
        std::swap(data_.given[i], other);
      }
      // An index into a table of one row can only be 0.
      if (varies && !(moved >= options_.moved))
        find(Rule::kInput, fmt::format("The input '{}' does not matter.", tree_->info().args[i].name));
    }
  }

  bool only_integers() const {
    return std::all_of(truth_->items().begin(), truth_->items().end(),
                       [](const auto& item) { return !dtype_is_float(item.spec.dtype); });
  }

  void weights() {
    std::vector<ParamSpec> specs = collect_params(*tree_);
    for (size_t i = 0; i < specs.size(); ++i) {
      if (!in_time(specs[i].name)) continue;
      std::vector<Tensor> other;
      other.push_back(copy_of(params_[i]));
      apply_to_weights(kOtherWeights, std::span(&specs[i], 1), other, options_.seed);
      reference_.replace(i, other[0]);
      const double moved = distance(data_);
      if (moved < kRoundingOfReference && tree_->info().level > 1)
        report_.unused_weights.push_back(specs[i].name);
      else if (!(moved >= 1))
        find(Rule::kWeight, fmt::format("The weight '{}' does not matter.", specs[i].name));
      reference_.replace(i, params_[i]);
    }
  }

  // Scales the inputs or the weights: a norm cancels the first and follows the second.
  void scale() {
    if (only_integers()) return;  // an index does not grow with the scale
    CallData data = same_inputs();
    apply_to_inputs(kDoubledInputs, *tree_, options_.inputs->specs(*tree_, workload_), data, options_.seed);
    double moved = distance(data);
    if (!params_.empty()) {
      reference_.bind(changed(kDoubledWeights));
      moved = std::max(moved, distance(data_));
      reference_.bind(params_);
    }
    if (!(moved >= options_.moved)) find(Rule::kScale, "Doubling the inputs or the weights does not move the output.");
  }

  const TaskCheckOptions& options_;
  Subject& baseline_;
  std::unique_ptr<Node> tree_;
  Workload workload_;
  Reference reference_;
  SharedParams shared_params_;
  const std::vector<Tensor>& params_;
  CallData data_;
  std::optional<CallData> other_data_;
  std::unique_ptr<CallTruth> truth_;
  TaskReport report_;
  Clock::time_point start_ = Clock::now();
};

}  // namespace

std::optional<Failure> TaskReport::failure() const {
  if (valid()) return std::nullopt;
  return Failure{Verdict::kInvalidTask, findings.front().sentence};
}

TaskReport check_task(const OperatorInfo& info, const Fields& init, const Workload& workload, Subject& baseline,
                      const TaskCheckOptions& options) {
  return TaskCheck(info, init, workload, baseline, options).run();
}

}  // namespace fk
