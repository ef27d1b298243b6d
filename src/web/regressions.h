// Finds regressions: one scenario of one operator on one device, over its newest runs.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "track/records.h"

namespace fk {

// One run of a series, with where it came from.
struct SeriesPoint {
  std::string run_id, commit, candidate, verdict;
  std::optional<double> speedup, low, high;  // absent: not timed, or not rankable
  double delta = 0;                          // the smallest change that the run can detect, as a share
  bool passed = false;
  bool skipped = false;
  bool busy = false;  // the machine was busy when it began
};

struct Regression {
  bool incorrect = false;  // it passed before and does not now; otherwise it is slower
  SeriesPoint before;      // the best run of the window
  SeriesPoint latest;
  SeriesPoint last_good, first_bad;  // adjacent runs: the change is between their commits
  // Empty, or why it is not an alarm: "another candidate", "another load", or both.
  std::string unlike;
};

// `newest_first`: the runs of one scenario on one device. The newest is compared with runs of the same candidate under
// a similar load; if there are none, with all of them, which is no alarm (`unlike`). Slower: the newest interval lies
// entirely below that of the best run before it, by more than the noise of either run; good is then every run whose
// interval overlaps the best one's.
std::optional<Regression> find_regression(const std::vector<SeriesPoint>& newest_first);

}  // namespace fk
