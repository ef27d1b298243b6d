// Two kernels compared by pairs of times taken back to back, within several launches of their processes.
//
// Noise that lasts longer than a pair (clocks, neighbours, heat) hits both halves and cancels in the ratio, so the
// median of log-ratios moves far less than either side's own times. Positive log-ratios mean: the candidate is faster.
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

// Why a pair does not count. A pair is dropped as a whole, and only for what the system reports: never for its times.
enum class Dropped : uint8_t {
  kNo,
  kContextSwitch,  // the system took a core away in the middle
  kStealTime,      // the hypervisor did
  kSlowClock,      // under 75 % of the nominal clock, or on a CPU of the fastest in the same launch
};
inline constexpr size_t kDropReasons = 4;
std::string_view drop_reason_name(Dropped reason);

struct TimePair {
  double baseline_ns = 0;
  double candidate_ns = 0;
  Dropped dropped = Dropped::kNo;
};

// By launch of the two processes: what a launch decides once (addresses, page colours) is the same for all its pairs.
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
  double least_delta = 0.01;       // a change smaller than this is no change
  double most_dropped = 0.2;       // share of pairs; beyond it the run is invalid
  double most_control_off = 0.01;  // error of the control beyond which the run ranks nothing
  double could_hide_ns = 0;        // of one of the candidate's times: what it may have kept off the clock at most
};

struct PairedResult {
  double log_ratio = 0;   // median of ln(baseline / candidate) over the pairs that count
  Interval log_interval;  // of that median; a gain is smaller by what could have been hidden
  double delta = 0;       // as a log-ratio: beyond it lies a change
  SpeedVerdict verdict = SpeedVerdict::kUnresolved;
  double control_error = 0;  // |log-ratio| the baseline has against itself
  std::string invalid;       // empty, or the sentence that says why this run ranks nothing

  Summary baseline;  // in ns, of the pairs that count
  Summary candidate;
  size_t launches = 0;
  size_t pairs = 0;                            // taken, dropped ones included
  std::array<size_t, kDropReasons> dropped{};  // pairs by reason; [kNo] counts those that count

  double speedup() const { return std::exp(log_ratio); }
  Interval speedup_interval() const { return {std::exp(log_interval.low), std::exp(log_interval.high)}; }
  size_t dropped_pairs() const { return pairs - dropped[0]; }
  // +1 or -1 where the interval says which one is faster, by however little; 0 where it contains "equal".
  int direction() const { return log_interval.low > 0 ? 1 : log_interval.high < 0 ? -1 : 0; }
};

// `control` holds pairs of the baseline against itself from the same run. A run without pairs that count is invalid.
//
// In simulations of five launches the 99 % interval covers 99.8 % while launches differ by a tenth of what pairs do, 97
// % at half of it, and 94 % where they differ as much as pairs: then take more launches, not more pairs.
PairedResult compare_paired(const PairedSamples& samples, const PairedSamples& control,
                            const PairedOptions& options = {});

// Whether to sample on: until the interval is narrow enough or the budget is spent. The verdict has no say, since a
// test repeated until it says yes says yes too often.
bool needs_more(const PairedResult& result, double width_target, size_t budget_pairs);

}  // namespace fk
