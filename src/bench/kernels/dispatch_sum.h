// Sums of the dispatch counts of several processes.
#pragma once

#include <algorithm>
#include <vector>

#include "sandbox/runner_process.h"

namespace fk {

inline void add_dispatches(std::vector<RunnerDispatch>& sum, const std::vector<RunnerDispatch>& more) {
  for (const RunnerDispatch& d : more) {
    auto same = std::find_if(sum.begin(), sum.end(), [&](const RunnerDispatch& s) {
      return s.op == d.op && s.implementation == d.implementation && s.rows_up_to == d.rows_up_to;
    });
    if (same == sum.end())
      sum.push_back(d);
    else
      same->calls += d.calls;
  }
}

// Subtracts the counts of `before`.
inline std::vector<RunnerDispatch> dispatches_since(const std::vector<RunnerDispatch>& before,
                                                    std::vector<RunnerDispatch> now) {
  for (RunnerDispatch& d : now)
    for (const RunnerDispatch& b : before)
      if (b.op == d.op && b.implementation == d.implementation && b.rows_up_to == d.rows_up_to) d.calls -= b.calls;
  std::erase_if(now, [](const RunnerDispatch& d) { return d.calls <= 0; });
  return now;
}

}  // namespace fk
