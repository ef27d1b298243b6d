#include "bench/kernels/exchange_cost.h"

#include <algorithm>
#include <cmath>

#include "measure/statistics.h"

namespace fk {
namespace {
constexpr double kHidden = 0.004;  // share of a sample that the spread of the overhead may hide
constexpr double kLongest = 4e6;   // ns; more calls would need more memory without a better time
}  // namespace

void ExchangeCost::Times::add(double ns, bool disturbed) {
  all.push_back(ns);
  if (!disturbed) undisturbed.push_back(ns);
}

const std::vector<double>& ExchangeCost::samples() const { return empty_.all.empty() ? before_.best() : empty_.best(); }

double ExchangeCost::typical_ns() const { return samples().empty() ? 0 : median(samples()); }

double ExchangeCost::spread_ns() const {
  return samples().empty() ? 0 : median(samples()) - *std::min_element(samples().begin(), samples().end());
}

double ExchangeCost::loop_ns() const { return loops_.all.empty() ? 0 : std::max(0.0, median(loops_.best())); }

double OutsideTime::charge_ns() const { return candidate_.empty() ? 0 : std::max(0.0, median(candidate_)); }

double OutsideTime::could_hide_ns() const {
  if (control_.empty()) return 0;
  double middle = median(control_);
  std::vector<double> off;
  for (double ns : control_) off.push_back(std::abs(ns - middle));
  // Twice the error of a median, estimated from the median deviation.
  double error = 2 * 1.25 * 1.48 * median(off) / std::sqrt(static_cast<double>(control_.size()));
  return std::abs(middle) + error;
}

int calls_per_sample(double call_ns, double spread_ns, double least_ns) {
  double sample = std::min(std::max(least_ns, spread_ns / kHidden), std::max(least_ns, kLongest));
  return static_cast<int>(std::clamp(std::ceil(sample / std::max(call_ns, 1.0)), 1.0, 1e6));
}

}  // namespace fk
