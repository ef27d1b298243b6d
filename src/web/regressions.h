// What became worse: one scenario of one operator on one device, over its newest runs.
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
  double delta = 0;                          // the smallest change the run could tell from none, as a share
  bool passed = false;
  bool skipped = false;
  bool busy = false;  // other programs had the machine when it began
};

struct Regression {
  bool incorrect = false;  // it passed before and does not now; otherwise it is slower
  SeriesPoint before;      // the best of the window that the newest run falls short of
  SeriesPoint latest;
  SeriesPoint last_good, first_bad;  // neighbours among the runs: the change lies between their commits
  // Empty, or why it is no alarm: the runs compared are unlike. "another candidate", "another load", or both.
  std::string unlike;
};

// `newest_first`: the runs of one scenario on one device. The newest is compared with runs of the same candidate on a
// machine as busy; where those tell nothing, with all of them, which is no alarm (`unlike`). Slower: the newest
// interval lies wholly below that of the best run before it, by more than either run calls noise; good is then every
// run whose interval meets the best one's.
std::optional<Regression> find_regression(const std::vector<SeriesPoint>& newest_first);

}  // namespace fk
