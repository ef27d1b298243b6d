// The bootstrap of the paired comparison. Values are replaced by their ranks once; a resample is then a count per rank,
// and its median is found from the counts without sorting.
#include "measure/paired.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <span>
#include <utility>

#include "core/check.h"
#include "core/error.h"
#include "measure/launch_spread.h"
#include "measure/resample.h"

namespace fk {
namespace {

double mean_of(std::span<const double> values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

// The ratios of one launch. A round has one or two of them, which belong together: both have the same candidate's time.
struct LaunchRatios {
  std::vector<double> values;
  std::vector<size_t> ends;  // of each round in `values`

  // One number of each round, so that those of a launch are independent.
  std::vector<double> rounds() const {
    std::vector<double> means;
    for (size_t i = 0, begin = 0; i < ends.size(); begin = ends[i++])
      means.push_back(mean_of(std::span(values).subspan(begin, ends[i] - begin)));
    return means;
  }
};
using LogRatios = std::vector<LaunchRatios>;  // by launch; no launch is empty

double log_ratio(double baseline_ns, double candidate_ns) {
  if (!(baseline_ns > 0) || !(candidate_ns > 0) || !std::isfinite(baseline_ns / candidate_ns))
    throw Error("A pair has the times {} and {} ns, which no clock can return; check how they were measured.",
                baseline_ns, candidate_ns);
  return std::log(baseline_ns / candidate_ns);
}

LogRatios log_ratios(const PairedSamples& samples) {
  LogRatios ratios;
  for (const auto& launch : samples) {
    LaunchRatios of_launch;
    for (const TimePair& pair : launch) {
      if (pair.dropped != Dropped::kNo) continue;
      of_launch.values.push_back(log_ratio(pair.baseline_ns, pair.candidate_ns));
      if (pair.again_ns != 0) of_launch.values.push_back(log_ratio(pair.again_ns, pair.candidate_ns));
      of_launch.ends.push_back(of_launch.values.size());
    }
    if (!of_launch.ends.empty()) ratios.push_back(std::move(of_launch));
  }
  return ratios;
}

std::vector<double> joined(const LogRatios& ratios) {
  std::vector<double> all;
  for (const auto& launch : ratios) all.insert(all.end(), launch.values.begin(), launch.values.end());
  return all;
}

Interval bootstrap_median(const LogRatios& ratios, const PairedOptions& options) {
  std::vector<double> values = joined(ratios);
  std::vector<size_t> order(values.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return values[a] < values[b]; });
  std::vector<uint32_t> rank(values.size());
  for (size_t i = 0; i < order.size(); ++i) rank[order[i]] = static_cast<uint32_t>(i);
  std::sort(values.begin(), values.end());
  std::vector<size_t> first{0};
  for (const auto& launch : ratios) first.push_back(first.back() + launch.values.size());

  Draws draws(options.seed, "paired bootstrap");
  std::vector<uint32_t> count(values.size());
  std::vector<double> medians;
  for (int i = 0; i < options.resamples; ++i) {
    std::fill(count.begin(), count.end(), 0u);
    size_t drawn = 0;
    for (size_t l = 0; l < ratios.size(); ++l) {
      size_t launch = draws.below(ratios.size());
      const std::vector<size_t>& ends = ratios[launch].ends;
      const uint32_t* ranks = rank.data() + first[launch];
      for (size_t k = 0; k < ends.size(); ++k) {
        size_t round = draws.below(ends.size());
        for (size_t at = round == 0 ? 0 : ends[round - 1]; at < ends[round]; ++at, ++drawn) ++count[ranks[at]];
      }
    }
    // The lower and the upper middle value, which differ if the number of samples is even.
    size_t below = 0, at = 0, lower = 0;
    bool has_lower = false;
    for (;; ++at) {
      below += count[at];
      if (!has_lower && 2 * below >= drawn) lower = at, has_lower = true;
      if (2 * below > drawn) break;
    }
    medians.push_back((values[lower] + values[at]) / 2);
  }
  std::sort(medians.begin(), medians.end());
  auto cut = static_cast<size_t>((1 - options.confidence) / 2 * static_cast<double>(medians.size()));
  cut = std::min(cut, (medians.size() - 1) / 2);
  return {medians[cut], medians[medians.size() - 1 - cut]};
}

// The bootstrap's interval, wider where launches differ more than it can know.
Interval interval_of_median(const LogRatios& ratios, double middle, const PairedOptions& options) {
  Interval interval = bootstrap_median(ratios, options);
  if (!options.for_other_launches) return interval;
  std::vector<std::vector<double>> rounds;
  for (const LaunchRatios& launch : ratios) rounds.push_back(launch.rounds());
  const double half = half_width_of_launches(std::move(rounds), options.confidence);
  return {std::min(interval.low, middle - half), std::max(interval.high, middle + half)};
}

// "2 context switch, 20 slow clock"
std::string dropped_text(const PairedResult& result) {
  std::string text;
  for (size_t i = 1; i < kDropReasons; ++i)
    if (result.dropped[i] > 0)
      text += fmt::format("{}{} {}", text.empty() ? "" : ", ", result.dropped[i],
                          drop_reason_name(static_cast<Dropped>(i)));
  return text;
}

SpeedVerdict verdict_of(const Interval& interval, double delta) {
  if (interval.low > delta) return SpeedVerdict::kFaster;
  if (interval.high < -delta) return SpeedVerdict::kSlower;
  if (interval.low >= -delta && interval.high <= delta) return SpeedVerdict::kSame;
  return SpeedVerdict::kUnresolved;
}

// A candidate that is slower by several times the noise is slower on any machine: it must not become INVALID by making
// the machine noisy. A gain is never taken from such a run.
bool slower_beyond_noise(const PairedResult& result) {
  constexpr double kTimesTheNoise = 4;
  return result.verdict == SpeedVerdict::kSlower && result.log_interval.high < -kTimesTheNoise * result.control_error;
}

// The same of a candidate whose samples were dropped, which it can cause by threads that compete for its core. Few
// pairs are left then, so there must be enough of them, and more than a small difference.
bool much_slower_in_the_rest(const PairedResult& result, size_t control_ratios) {
  constexpr size_t kEnough = 24;
  return slower_beyond_noise(result) && result.log_interval.high < -std::log1p(0.05) && result.dropped[0] >= kEnough &&
         control_ratios >= kEnough;
}

}  // namespace

std::string_view drop_reason_name(Dropped reason) {
  constexpr std::string_view kNames[kDropReasons] = {"kept", "context switch", "steal time", "slow clock"};
  return kNames[static_cast<size_t>(reason)];
}

std::string_view speed_verdict_name(SpeedVerdict verdict) {
  constexpr std::string_view kNames[] = {"FASTER", "SLOWER", "SAME", "UNRESOLVED"};
  return kNames[static_cast<size_t>(verdict)];
}

PairedResult compare_paired(const PairedSamples& samples, const PairedSamples& control, const PairedOptions& options) {
  FK_CHECK(options.resamples > 0 && options.confidence > 0 && options.confidence < 1);
  PairedResult result;
  std::vector<double> baseline, candidate;
  for (const auto& launch : samples) {
    for (const TimePair& pair : launch) {
      ++result.pairs;
      ++result.dropped[static_cast<size_t>(pair.dropped)];
      if (pair.dropped != Dropped::kNo) continue;
      baseline.push_back(pair.baseline_ns);
      candidate.push_back(pair.candidate_ns);
    }
  }
  LogRatios ratios = log_ratios(samples), control_ratios = log_ratios(control);
  result.launches = ratios.size();
  // Without a control the noise is unknown, and nothing is ranked.
  result.control_error = control_ratios.empty() ? 0 : std::abs(median(joined(control_ratios)));
  result.delta = std::max(std::log1p(options.least_delta), 2 * result.control_error);
  if (ratios.empty()) {
    result.invalid = fmt::format("None of the {} pairs is valid{}, so there is nothing to compare.", result.pairs,
                                 result.dropped_pairs() > 0 ? fmt::format(" ({})", dropped_text(result)) : "");
    return result;
  }
  result.baseline = summarize(baseline);
  result.candidate = summarize(candidate);
  result.log_ratio = median(joined(ratios));
  result.log_interval = interval_of_median(ratios, result.log_ratio, options);
  result.verdict = verdict_of(result.log_interval, result.delta);
  // A side is not known to be faster if its gain is at most what can be hidden.
  double hidden = std::log1p(options.could_hide_ns / result.candidate.median);
  double& low = result.log_interval.low;
  if (low > 0) low = std::max(0.0, low - hidden);
  if (result.verdict == SpeedVerdict::kFaster && low <= result.delta) result.verdict = SpeedVerdict::kUnresolved;

  double share = static_cast<double>(result.dropped_pairs()) / static_cast<double>(result.pairs);
  if (share > options.most_dropped && !much_slower_in_the_rest(result, joined(control_ratios).size()))
    result.invalid =
        fmt::format("{} of {} pairs were dropped ({}), and more than {:.0f} % is too many to trust the rest.",
                    result.dropped_pairs(), result.pairs, dropped_text(result), 100 * options.most_dropped);
  else if (control_ratios.empty())
    result.invalid = "There are no pairs of the baseline against itself, so the noise is unknown.";
  else if (result.control_error > std::log1p(options.most_control_off) && !slower_beyond_noise(result))
    result.invalid = fmt::format("The baseline differs from itself by {:.2f} %, so the machine is too noisy to rank.",
                                 100 * std::expm1(result.control_error));
  if (!result.invalid.empty()) result.verdict = SpeedVerdict::kUnresolved;
  return result;
}

bool needs_more(const PairedResult& result, double width_target, size_t budget_pairs) {
  if (result.pairs >= budget_pairs) return false;
  return result.dropped[0] == 0 || result.log_interval.width() > width_target;
}

}  // namespace fk
