#include "validate/call_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

namespace fk {
namespace {

std::vector<OptView> views_of(const std::vector<std::optional<Tensor>>& tensors) {
  std::vector<OptView> views;
  for (const auto& t : tensors) views.push_back(t ? OptView(t->view()) : std::nullopt);
  return views;
}

Verdict verdict_of(const Comparison& c, bool is_state) {
  if (c.fault == Comparison::Fault::kDtype) return Verdict::kIncorrectDtype;
  if (c.fault == Comparison::Fault::kShape) return Verdict::kIncorrectShape;
  if (c.fault == Comparison::Fault::kReference) return Verdict::kInvalidTask;
  return is_state ? Verdict::kIncorrectState : Verdict::kIncorrectNumerical;
}

// How often the operators' results are rounded to see how far that moves a result. A row with two nearly equal scores
// moves only where a rounding decides otherwise, so many are drawn unless the oracle is slow.
constexpr double kMostRoundings = 32, kLeastRoundings = 4, kRoundingSeconds = 2;

// The median of the errors may be this many times the baseline's, or that of a reference whose parts round their
// results at random, which moves it 1.2 times as far as rounding to the nearest. Measured for llama_mlp in bf16: 0.3
// times for kernels that keep f32 inside, 1.0 for those that store bf16 (0.76 to 0.87 times the second), 1.31 to 1.64
// for weights of nine bits and a half (1.03 to 1.36), 2.4 for those of nine. Of fewer elements the median varies by
// more.
constexpr double kTypicalOfBaseline = 1.3, kTypicalOfRounded = 1.05;
constexpr int64_t kLeastForTypical = 1024;

double median_of(std::vector<double> values) {
  auto middle = values.begin() + std::ssize(values) / 2;
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// The median of the errors. A few large ones, where a rounding decides between nearly equal scores, do not change it.
double typical_error(const View& got, const View& reference) {
  const auto* want = reference.ptr<double>();
  std::vector<double> errors(static_cast<size_t>(reference.numel()));
  for (size_t i = 0; i < errors.size(); ++i) {
    const auto* element = static_cast<const std::byte*>(got.data()) + i * dtype_size(got.dtype());
    errors[i] = std::abs(load_element(element, got.dtype()) - want[i]);
    if (std::isnan(errors[i])) errors[i] = std::numeric_limits<double>::infinity();
  }
  return median_of(std::move(errors));
}

// The median of the errors of a result that is right and rounded to a dtype.
double rounding_of_typical(const View& reference, DType dtype) {
  const auto* want = reference.ptr<double>();
  std::vector<double> sizes(want, want + reference.numel());
  for (double& size : sizes) size = std::isnan(size) ? 0 : std::abs(size);
  return dtype_epsilon(dtype) / 8 * median_of(std::move(sizes));
}

// Whether roundings of the results of its parts are what makes an honest kernel inaccurate. Not where activations may
// be quantised, as with quantised weights; where sums are as inaccurate as what is stored (f32); where a part computes
// in several steps whose results are its own matter (recurrences).
bool is_rounded_between_parts(const Node& tree, DType dtype) {
  if (tree.children().empty() || dtype_size(dtype) != 2) return false;
  for (const ParamSpec& p : collect_params(tree))
    if (!p.format.empty() || dtype_size(p.spec.dtype) < 2) return false;
  for (const StateSpec& s : collect_states(tree))
    if (!s.per_token()) return false;
  return true;
}

// Replaces elements by their reference that are out of bounds and not farther off than roundings explain. False if
// there are none. An element of a state that the call does not change must stay as it is.
bool leave_out_explained(const View& got, const CallTruth::Item& item, const std::vector<double>& moved) {
  const std::vector<uint8_t> wrong = wrong_elements(got, item.reference, item.bounds, item.before);
  const auto* want = item.reference.ptr<double>();
  const size_t step = dtype_size(got.dtype());
  bool any = false;
  for (size_t i = 0; i < wrong.size(); ++i) {
    if (wrong[i] == 0) continue;
    auto* element = static_cast<std::byte*>(got.data()) + i * step;
    const double error = std::abs(load_element(element, got.dtype()) - want[i]);
    if (!std::isfinite(error) || error > kBaselineFactor * moved[i]) continue;
    if (item.before != nullptr &&
        load_element(static_cast<const std::byte*>(item.before->data()) + i * step, item.before->dtype()) == want[i])
      continue;
    store_element(element, got.dtype(), want[i]);
    any = true;
  }
  return any;
}

}  // namespace

const View& reference_in(const Expected& expected, const CallTruth::Item& item) {
  return item.state >= 0 ? expected.states[static_cast<size_t>(item.state)].view()
                         : expected.args[static_cast<size_t>(item.arg)]->view();
}

const Tensor* written_tensor(const CallOutcome& outcome, const CallTruth::Item& item) {
  if (item.state >= 0) {
    auto i = static_cast<size_t>(item.state);
    return i < outcome.states.size() ? &outcome.states[i] : nullptr;
  }
  auto i = static_cast<size_t>(item.arg);
  return i < outcome.written.size() && outcome.written[i] ? &*outcome.written[i] : nullptr;
}

CallTruth::CallTruth(const Node& tree, const Workload& workload, const CallData& data, Reference& reference,
                     const CallOutcome& baseline, bool exact, const BaselineRatios& typical)
    : tree_(tree), workload_(workload), data_(data), reference_(reference) {
  if (baseline.failure) {
    unusable_ = fmt::format("the baseline failed: {}", baseline.failure->sentence);
    return;
  }
  expected_ = reference.compute(data);
  const OperatorInfo& info = tree.info();
  OutputSpecs outputs = tree.outputs(views_of(data.given));
  for (size_t i = 0, given = data.given.size(); i < info.args.size(); ++i) {
    if (info.args[i].role == Role::kInput || !expected_.args[i]) continue;
    bool is_state = info.args[i].role == Role::kState;
    items_.push_back({.name = fmt::format("'{}'", info.args[i].name),
                      .arg = static_cast<int>(i),
                      .is_state = is_state,
                      .spec = is_state ? data.given[i]->view().spec() : *outputs.specs[i - given],
                      .reference = *expected_.args[i],
                      .before = is_state ? &data.given[i]->view() : nullptr});
  }
  for (size_t i = 0; i < data.states.size(); ++i)
    items_.push_back({.name = state_words(data.state_specs[i]),
                      .state = static_cast<int>(i),
                      .is_state = true,
                      .spec = data.states[i].view().spec(),
                      .reference = expected_.states[i],
                      .before = &data.states[i].view()});

  std::vector<OptView> given = views_of(data.given);
  Tolerance contract = info.tolerance_on(tree.init(), workload.dtype, given);
  for (Item& item : items_) {
    if (info.judge != nullptr && !item.is_state) continue;
    const Tensor* own = written_tensor(baseline, item);
    if (own == nullptr || !(own->view().spec() == item.spec)) {
      unusable_ = fmt::format("the baseline left {} missing or of another shape or dtype", item.name);
      return;
    }
    Tolerance least =
        dtype_is_float(item.spec.dtype) ? info.tolerance_on(tree.init(), item.spec.dtype, given) : contract;
    auto known = typical.find(item.name);
    Calibration calibration =
        calibrate(*own, item.reference, contract, least, known != typical.end() ? known->second : 0);
    item.bounds = calibration.bounds;
    ratios_[item.name] = calibration.baseline_ratio;
    if (!calibration.usable) {
      unusable_ = fmt::format("the baseline breaks the contract's tolerance on them ({} is off by {:.3g} tolerances)",
                              item.name, calibration.baseline_ratio);
      return;
    }
    if (!exact || !dtype_is_float(item.spec.dtype) || !exact_integers(item.reference)) continue;
    Bounds rounding = rounding_bounds(item.reference, item.spec.dtype);
    if (compare(*own, item.reference, rounding, item.before).ok()) item.bounds = rounding;
  }
  for (Item& item : items_) {
    if (info.judge != nullptr || item.is_state || item.reference.numel() < kLeastForTypical) continue;
    if (dtype_is_float(item.spec.dtype) && is_rounded_between_parts(tree, workload.dtype))
      item.typical_error = std::max(typical_error(*written_tensor(baseline, item), item.reference),
                                    rounding_of_typical(item.reference, item.spec.dtype));
  }
  if (std::optional<CallFault> fault = check(baseline).fault)
    unusable_ = fmt::format("the baseline itself would be refused: {}", fault->sentence);
}

CallCheckResult CallTruth::check(const CallOutcome& outcome) const {
  CallCheckResult result;
  if (outcome.failure) {
    result.fault = CallFault{.verdict = outcome.failure->verdict, .sentence = outcome.failure->sentence};
    return result;
  }
  result = check_items(outcome);
  if (!result.fault && tree_.info().judge != nullptr) {
    ++result.checks;
    result.fault = check_own_rule(outcome);
  }
  return result;
}

bool CallTruth::round_again() const {
  const double seconds = reference_seconds(tree_.info(), tree_.init(), workload_);
  if (rounded_ >= std::clamp(kRoundingSeconds / seconds, kLeastRoundings, kMostRoundings)) return false;
  const Expected rounded = reference_.compute_rounded(data_, workload_.dtype, static_cast<uint64_t>(rounded_++));
  moved_.resize(items_.size());
  moved_typically_.resize(items_.size());
  for (size_t i = 0; i < items_.size(); ++i) {
    if (!dtype_is_float(items_[i].spec.dtype)) continue;
    moved_typically_[i] =
        std::max(moved_typically_[i], typical_error(reference_in(rounded, items_[i]), items_[i].reference));
    const auto *other = reference_in(rounded, items_[i]).ptr<double>(), *want = items_[i].reference.ptr<double>();
    moved_[i].resize(static_cast<size_t>(items_[i].reference.numel()));
    for (size_t k = 0; k < moved_[i].size(); ++k)
      moved_[i][k] = std::max(moved_[i][k], std::abs(other[k] - want[k]));  // NaN moves nothing
  }
  return true;
}

Comparison CallTruth::compare_item(const Item& item, const Tensor& got) const {
  Comparison c = compare_elements(item, got);
  if (c.ok()) compare_typical(item, got, c);
  return c;
}

void CallTruth::compare_typical(const Item& item, const Tensor& got, Comparison& c) const {
  if (item.typical_error < 0) return;
  const double typical = typical_error(got, item.reference);
  if (typical <= kTypicalOfBaseline * item.typical_error) return;
  if (moved_.empty()) round_again();
  const size_t i = static_cast<size_t>(&item - items_.data());
  if (typical <=
      kTypicalOfRounded * std::hypot(moved_typically_[i], rounding_of_typical(item.reference, item.spec.dtype)))
    return;
  c.fault = Comparison::Fault::kTypical;
  c.ratio = typical / (kTypicalOfBaseline * item.typical_error);
  c.sentence = fmt::format(
      "half of the elements are off by more than {:.3g}, which is {:.1f} times as much as for the baseline and more "
      "than rounding the results of all parts explains; are inputs or weights kept in fewer bits?",
      typical, typical / item.typical_error);
}

Comparison CallTruth::compare_elements(const Item& item, const Tensor& got) const {
  Comparison strict = compare(got, item.spec.dtype, item.reference, item.bounds, item.before);
  auto is_error = [](const Comparison& c) {
    using Fault = Comparison::Fault;
    return c.fault == Fault::kElement || c.fault == Fault::kLargest || c.fault == Fault::kMeanSquare;
  };
  if (!is_error(strict) || !dtype_is_float(item.spec.dtype) || tree_.children().empty()) return strict;
  Tensor rest(got.view().spec());
  copy_elements(got, rest);
  while (!moved_.empty() || round_again()) {
    const std::vector<double>& moved = moved_[static_cast<size_t>(&item - items_.data())];
    // Once all elements are within their own bounds, the two bounds of the whole tensor are looked at.
    for (int bound = 0; bound < 3 && leave_out_explained(rest, item, moved); ++bound)
      if (Comparison c = compare(rest, item.spec.dtype, item.reference, item.bounds, item.before); !is_error(c))
        return c;
    if (!round_again()) break;
  }
  return strict;
}

CallCheckResult CallTruth::check_items(const CallOutcome& outcome) const {
  CallCheckResult result;
  for (const Item& item : items_) {
    const Tensor* got = written_tensor(outcome, item);
    if (got == nullptr) {
      result.fault = CallFault{.verdict = Verdict::kIncorrectShape,
                               .sentence = fmt::format("{} is missing after the call.", item.name),
                               .tensor = item.name};
      return result;
    }
    if (tree_.info().judge != nullptr && !item.is_state) {
      // The operator has its own check of the values; only shape and dtype are checked here.
      if (got->view().spec() == item.spec) {
        result.elements += got->view().numel();
        continue;
      }
    }
    Comparison c = compare_item(item, *got);
    ++result.checks;
    result.elements += c.elements;
    if (c.ok()) {
      result.worst_ratio = std::max(result.worst_ratio, c.ratio);
      continue;
    }
    CallFault fault{.verdict = verdict_of(c, item.is_state),
                    .sentence = fmt::format("{}: {}.", item.name, c.sentence),
                    .tensor = item.name,
                    .got = c.got,
                    .want = c.want};
    if (c.elements > 0) fault.worst = c.worst;
    result.fault = std::move(fault);
    return result;
  }
  return result;
}

std::optional<CallFault> CallTruth::check_own_rule(const CallOutcome& outcome) const {
  std::vector<OptView> call = views_of(data_.given), reference = expected_.views();
  for (size_t i = call.size(); i < tree_.info().args.size(); ++i)
    call.push_back(outcome.written[i] ? OptView(outcome.written[i]->view()) : std::nullopt);
  std::string wrong = tree_.info().judge(tree_.init(), call, reference);
  if (wrong.empty()) return std::nullopt;
  return CallFault{.verdict = Verdict::kIncorrectNumerical, .sentence = wrong + "."};
}

std::optional<std::string> differing_bits(const CallTruth& truth, const CallOutcome& a, const CallOutcome& b) {
  for (const CallTruth::Item& item : truth.items()) {
    const Tensor *x = written_tensor(a, item), *y = written_tensor(b, item);
    if (x == nullptr || y == nullptr || !(x->view().spec() == y->view().spec()) ||
        std::memcmp(x->view().data(), y->view().data(), x->view().size_bytes()) != 0)
      return item.name;
  }
  return std::nullopt;
}

}  // namespace fk
