#include "bench/eval/alignment.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "measure/statistics.h"

namespace fk {
namespace {

// A correct kernel may sum in another order and round at other places than the baseline does from batch to batch, so
// its errors are larger than the baseline's own, and of the same kind.
constexpr double kTimesNoise = 3;
// The change of rounding moves every output of every norm by half a unit to one unit of the dtype. A correct kernel
// moves few of them, and those by one unit: the examples of this repository reach 0.3 of that error.
constexpr double kTimesRounding = 0.75;
// Where the baseline has no noise at all, one unit of the dtype.
constexpr double kLeastInEpsilons = 1;
constexpr double kLeastError = 1e-4;
// Outliers that chance explains: three standard deviations of a rare event, and three where the baseline has none.
constexpr double kDeviations = 3;
constexpr double kFewOutliers = 3;
constexpr double kQuantile = 0.99;

std::vector<double> finite_of(const std::vector<float>& values) {
  std::vector<double> finite;
  for (float value : values)
    if (std::isfinite(value)) finite.push_back(value);
  return finite;
}

double greatest(const std::vector<float>& values) {
  double most = 0;
  for (float value : values) {
    if (!std::isfinite(value)) return std::nan("");
    most = std::max<double>(most, value);
  }
  return most;
}

int64_t count_outliers(const PositionErrors& errors, double limit) {
  int64_t count = 0;
  for (size_t i = 0; i < errors.errors.size(); ++i) {
    bool margin = i < errors.margins.size() && !(errors.margins[i] <= limit);
    if (!(errors.errors[i] <= limit) || margin) ++count;
  }
  return count;
}

}  // namespace

void PositionErrors::add(const PositionErrors& other) {
  errors.insert(errors.end(), other.errors.begin(), other.errors.end());
  margins.insert(margins.end(), other.margins.begin(), other.margins.end());
}

AlignmentLimits limits_of_noise(const PositionErrors& batches, const PositionErrors& rounding, double epsilon) {
  double least = std::max(kLeastInEpsilons * epsilon, kLeastError);
  AlignmentLimits limits{2 * least, least, 0};
  for (const auto& [noise, factor] : {std::pair{&batches, kTimesNoise}, std::pair{&rounding, kTimesRounding}}) {
    std::vector<double> errors = finite_of(noise->errors);
    if (errors.empty()) continue;
    limits.median = std::max(limits.median, factor * median(errors));
    // Rare large errors of the baseline (an expert more or less) raise the share of outliers, not the limit, which is
    // bounded by a multiple of the median.
    limits.position = std::max({limits.position, 2 * limits.median,
                                std::min(factor * quantile(errors, kQuantile), 4 * factor * median(errors))});
  }
  for (const PositionErrors* noise : {&batches, &rounding})
    if (!noise->errors.empty())
      limits.outlier_share =
          std::max(limits.outlier_share, static_cast<double>(count_outliers(*noise, limits.position)) /
                                             static_cast<double>(noise->errors.size()));
  return limits;
}

Alignment judge_alignment(const PositionErrors& errors, const AlignmentLimits& limits) {
  Alignment a;
  a.positions = static_cast<int64_t>(errors.errors.size());
  if (a.positions == 0) {
    a.reason = "nothing was compared";
    return a;
  }
  auto n = static_cast<double>(a.positions);
  a.outliers = count_outliers(errors, limits.position);
  double expected = limits.outlier_share * n;
  a.allowed_outliers = std::min<int64_t>(
      a.positions / 2, static_cast<int64_t>(kTimesNoise * expected + kDeviations * std::sqrt(expected) + kFewOutliers));
  a.agreement = 1 - static_cast<double>(std::count_if(errors.margins.begin(), errors.margins.end(),
                                                      [](float m) { return !(m == 0); })) /
                        n;
  std::vector<double> finite = finite_of(errors.errors);
  a.median_error = finite.empty() ? std::nan("") : median(finite);
  a.worst_error = greatest(errors.errors);
  a.worst_margin = greatest(errors.margins);
  if (a.outliers > a.allowed_outliers)
    a.reason = fmt::format(
        "{} of {} positions differ by more than {:.2g} of the logits' spread, and {} may (as the baseline differs "
        "between batch sizes)",
        a.outliers, a.positions, limits.position, a.allowed_outliers);
  else if (!(a.median_error <= limits.median))
    a.reason = fmt::format(
        "half of the positions differ by more than {:.2g} of the logits' spread, and the baseline's own differences "
        "allow {:.2g}",
        a.median_error, limits.median);
  return a;
}

}  // namespace fk
