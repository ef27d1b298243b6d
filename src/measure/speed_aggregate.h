// Combines many scenarios into one number: the geometric mean of their speed-ups, weighted by how often a run makes
// each call, with an interval and the worst scenario.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "measure/paired.h"

namespace fk {

struct ScenarioSpeed {
  std::string name;
  bool failed = false;    // wrong or crashed: counts as 0, whatever its speed
  bool unranked = false;  // right, but not timed, or on a machine too noisy to rank: not counted
  double log_ratio = 0;
  Interval log_interval;  // 99 %
  double weight = 1;      // number of calls of this scenario in a run; positive
};

struct SpeedAggregate {
  size_t scenarios = 0;
  size_t failures = 0;
  size_t unranked = 0;
  double weight = 0;          // of all scenarios
  double passed_weight = 0;   // of those that did not fail
  double geometric_mean = 0;  // of the ranked speed-ups; 0 if there are none
  Interval interval;          // of that mean, over the choice of scenarios and their own noise
  double worst = 0;           // the smallest ranked speed-up; 0 if a scenario failed
  std::string worst_name;
  // geometric_mean times the share of the ranked weight that did not fail: a failure counts as 0, never as 1
  double credit = 0;

  bool failed() const { return scenarios == 0 || failures > 0; }  // nothing measured is no success
};

SpeedAggregate aggregate_speed(std::span<const ScenarioSpeed> scenarios, uint64_t seed = 0, int resamples = 2000);

}  // namespace fk
