// What changed from one run to another, and whether it is more than noise.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "track/store.h"

namespace fk {

enum class Noise : uint8_t {
  kBeyond,   // the two intervals (or sample ranges) do not overlap
  kWithin,   // they do
  kExact,    // a count, or something else without noise
  kUnknown,  // its noise is unknown
};
std::string_view noise_name(Noise noise);  // "beyond noise"

struct PairDiff {
  std::string key, before, after;  // empty: absent there
};

struct MetricDiff {
  std::string key;
  std::optional<double> before, after;
  Noise noise = Noise::kUnknown;
};

// A scenario both runs timed, or whose verdict changed.
struct ScenarioDiff {
  std::string op, scenario, before_verdict, after_verdict;  // empty: absent there
  std::optional<double> before, after;                      // speed-ups
  Noise noise = Noise::kUnknown;
};

struct RunDiff {
  std::vector<PairDiff> params, environment;  // those that differ
  std::vector<MetricDiff> metrics;            // all of either
  std::vector<ScenarioDiff> scenarios;
  std::vector<std::string> sources;  // unified diffs of candidates whose source differs
};

RunDiff diff_runs(StoreReader& store, const std::string& before, const std::string& after);

// The noise of a metric: the interval of a speed-up, or the smallest and the largest of three samples or more.
struct Spread {
  std::optional<double> low, high;
};
std::map<std::string, Spread> metric_spreads(const std::vector<OperatorRecord>& operators,
                                             const std::vector<TtftRecord>& ttft);  // of one run, by metric
std::map<std::string, Spread> ttft_spreads(const TtftRecord& result);               // likewise, of one result

// Two intervals: beyond noise if they do not overlap.
Noise compare_intervals(std::optional<double> low_a, std::optional<double> high_a, std::optional<double> low_b,
                        std::optional<double> high_b);

}  // namespace fk
