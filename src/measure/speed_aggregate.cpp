#include "measure/speed_aggregate.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

#include "measure/resample.h"

namespace fk {
namespace {

constexpr double kWidthInDeviations = 2 * 2.5758;  // of a 99 % interval

Interval bootstrap_mean(const std::vector<const ScenarioSpeed*>& passed, uint64_t seed, int resamples) {
  Draws draws(seed, "scenario bootstrap");
  std::vector<double> means;
  for (int i = 0; i < resamples; ++i) {
    double sum = 0;
    for (size_t k = 0; k < passed.size(); ++k) {
      const ScenarioSpeed& s = *passed[draws.below(passed.size())];
      double normal = std::sqrt(-2 * std::log(draws.uniform())) * std::cos(2 * std::numbers::pi * draws.uniform());
      sum += s.log_ratio + normal * s.log_interval.width() / kWidthInDeviations;
    }
    means.push_back(sum / static_cast<double>(passed.size()));
  }
  std::sort(means.begin(), means.end());
  size_t cut = means.size() / 200;
  return {std::exp(means[cut]), std::exp(means[means.size() - 1 - cut])};
}

}  // namespace

SpeedAggregate aggregate_speed(std::span<const ScenarioSpeed> scenarios, uint64_t seed, int resamples) {
  SpeedAggregate result;
  result.scenarios = scenarios.size();
  std::vector<const ScenarioSpeed*> passed;
  double sum = 0;
  bool has_worst = false;
  for (const ScenarioSpeed& s : scenarios) {
    double speed = s.failed ? 0 : std::exp(s.log_ratio);
    if (!has_worst || speed < result.worst) {
      has_worst = true;
      result.worst = speed;
      result.worst_name = s.name;
    }
    if (s.failed) {
      ++result.failures;
    } else {
      sum += s.log_ratio;
      passed.push_back(&s);
    }
  }
  if (passed.empty()) return result;
  auto n = static_cast<double>(passed.size());
  result.geometric_mean = std::exp(sum / n);
  result.interval = bootstrap_mean(passed, seed, resamples);
  result.credit = result.geometric_mean * n / static_cast<double>(scenarios.size());
  return result;
}

}  // namespace fk
