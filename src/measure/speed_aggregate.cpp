#include "measure/speed_aggregate.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

#include "core/check.h"
#include "measure/resample.h"

namespace fk {
namespace {

constexpr double kHalfInDeviations = 2.5758;  // of a 99 % interval

// An interval is symmetric but for what the candidate could have hidden, which lowers its low end.
double noise(const ScenarioSpeed& s) { return s.log_interval.high - s.log_ratio; }
double hidden(const ScenarioSpeed& s) { return std::max(0.0, s.log_ratio - s.log_interval.low - noise(s)); }

Interval bootstrap_mean(const std::vector<const ScenarioSpeed*>& passed, uint64_t seed, int resamples) {
  Draws draws(seed, "scenario bootstrap");
  std::vector<double> means;
  for (int i = 0; i < resamples; ++i) {
    double sum = 0, weight = 0;
    for (size_t k = 0; k < passed.size(); ++k) {
      const ScenarioSpeed& s = *passed[draws.below(passed.size())];
      double normal = std::sqrt(-2 * std::log(draws.uniform())) * std::cos(2 * std::numbers::pi * draws.uniform());
      sum += s.weight * (s.log_ratio + normal * noise(s) / kHalfInDeviations);
      weight += s.weight;
    }
    means.push_back(sum / weight);
  }
  std::sort(means.begin(), means.end());
  size_t cut = means.size() / 200;
  // Noise averages out over scenarios; what could be hidden in each of them does not.
  double all_hidden = 0, weight = 0;
  for (const ScenarioSpeed* s : passed) all_hidden += s->weight * hidden(*s), weight += s->weight;
  double low = means[cut];
  if (low > 0) low = std::max(0.0, low - all_hidden / weight);
  return {std::exp(low), std::exp(means[means.size() - 1 - cut])};
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
