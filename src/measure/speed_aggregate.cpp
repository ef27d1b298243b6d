#include "measure/speed_aggregate.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

#include "core/check.h"
#include "measure/resample.h"

namespace fk {
namespace {

constexpr double kWidthInDeviations = 2 * 2.5758;  // of a 99 % interval

Interval bootstrap_mean(const std::vector<const ScenarioSpeed*>& passed, uint64_t seed, int resamples) {
  Draws draws(seed, "scenario bootstrap");
  std::vector<double> means;
  for (int i = 0; i < resamples; ++i) {
    double sum = 0, weight = 0;
    for (size_t k = 0; k < passed.size(); ++k) {
      const ScenarioSpeed& s = *passed[draws.below(passed.size())];
      double normal = std::sqrt(-2 * std::log(draws.uniform())) * std::cos(2 * std::numbers::pi * draws.uniform());
      sum += s.weight * (s.log_ratio + normal * s.log_interval.width() / kWidthInDeviations);
      weight += s.weight;
    }
    means.push_back(sum / weight);
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
  double sum = 0, ranked_weight = 0, failed_weight = 0;
  bool has_worst = false;
  for (const ScenarioSpeed& s : scenarios) {
    FK_CHECK(s.weight > 0);
    result.weight += s.weight;
    if (s.unranked && !s.failed) {
      ++result.unranked;
      result.passed_weight += s.weight;
      continue;
    }
    double speed = s.failed ? 0 : std::exp(s.log_ratio);
    if (!has_worst || speed < result.worst) {
      has_worst = true;
      result.worst = speed;
      result.worst_name = s.name;
    }
    if (s.failed) {
      ++result.failures;
      failed_weight += s.weight;
    } else {
      sum += s.weight * s.log_ratio;
      ranked_weight += s.weight;
      result.passed_weight += s.weight;
      passed.push_back(&s);
    }
  }
  if (passed.empty()) return result;
  result.geometric_mean = std::exp(sum / ranked_weight);
  result.interval = bootstrap_mean(passed, seed, resamples);
  result.credit = result.geometric_mean * ranked_weight / (ranked_weight + failed_weight);
  return result;
}

}  // namespace fk
