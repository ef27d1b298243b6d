// Compares two kernels by pairs of times measured back to back, in several launches of their processes.
//
// Noise that lasts longer than a pair (clocks, neighbours, heat) affects both halves and cancels in the ratio, so the
// median of log-ratios varies far less than the times of either side. A positive log-ratio means that the candidate is
// faster.
#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "measure/statistics.h"

namespace fk {

// Why a pair is dropped. A pair is dropped as a whole, and only because of what the system reports, never because of
// its times.
enum class Dropped : uint8_t {
  kNo,
  kContextSwitch,  // another thread ran on the core
  kStealTime,      // the hypervisor took the core
  kSlowClock,      // below 75 % of the nominal clock; on a CPU, of the fastest clock in the same launch
};
inline constexpr size_t kDropReasons = 4;
std::string_view drop_reason_name(Dropped reason);

struct TimePair {
  double baseline_ns = 0;
  double candidate_ns = 0;
  Dropped dropped = Dropped::kNo;
  // The baseline once more, in the same round; 0: not measured or dropped. Then the round has two ratios: the candidate
  // against each of them. Their median varies by a quarter less than that of one.
  double again_ns = 0;
};

// Grouped by launch of the two processes: addresses and page colours are chosen once per launch and are the same for
// all its pairs.
using PairedSamples = std::vector<std::vector<TimePair>>;

struct Interval {
  double low = 0;
  double high = 0;

  double width() const { return high - low; }
};

enum class SpeedVerdict : uint8_t { kFaster, kSlower, kSame, kUnresolved };
std::string_view speed_verdict_name(SpeedVerdict verdict);  // "FASTER"

struct PairedOptions {
  double confidence = 0.99;
  int resamples = 2000;
  uint64_t seed = 0;
  double least_delta = 0.01;       // a smaller change counts as no change
  double most_dropped = 0.2;       // share of pairs; if more were dropped, only SLOWER by more than 5 % is ranked
  double most_control_off = 0.01;  // if the control's error is larger, only SLOWER by four times it is ranked
  bool for_other_launches = true;  // the interval holds beyond the launches that were made (launch_spread.h)
  double could_hide_ns = 0;        // per call of the candidate: the most time it could have hidden from the clock
};

struct PairedResult {
  double log_ratio = 0;   // median of ln(baseline / candidate) over all ratios of the pairs that count
  Interval log_interval;  // of that median; a gain is reduced by what could have been hidden
  double delta = 0;       // as a log-ratio: a larger difference is a change
  SpeedVerdict verdict = SpeedVerdict::kUnresolved;
  double control_error = 0;  // |log-ratio| of the baseline against itself
  std::string invalid;       // empty, or a sentence that explains why this run is not ranked

  Summary baseline;  // in ns, of the pairs that count
  Summary candidate;
  size_t launches = 0;
  size_t pairs = 0;                            // measured, including dropped ones
  std::array<size_t, kDropReasons> dropped{};  // pairs by reason; [kNo] counts those that count

  double speedup() const { return std::exp(log_ratio); }
  Interval speedup_interval() const { return {std::exp(log_interval.low), std::exp(log_interval.high)}; }
  size_t dropped_pairs() const { return pairs - dropped[0]; }
  // +1 or -1 if the interval excludes "equal", however small the difference; otherwise 0.
  int direction() const { return log_interval.low > 0 ? 1 : log_interval.high < 0 ? -1 : 0; }
};

// `control` contains pairs of the baseline against itself from the same run. A run without valid pairs is invalid.
//
// In simulations of 5 to 12 launches the 99 % interval covers 98 to 100 %, whether the differences between launches are
// none or three times those between pairs (launch_spread.h). If launches differ, more of them help, not more pairs.
PairedResult compare_paired(const PairedSamples& samples, const PairedSamples& control,
                            const PairedOptions& options = {});

// Whether to sample more: until the interval is narrow enough or the budget is spent. The verdict is not used, since a
// test repeated until it succeeds succeeds too often.
bool needs_more(const PairedResult& result, double width_target, size_t budget_pairs);

}  // namespace fk
