// Sums of the dispatch counts of several processes, and what a process must have counted.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
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

// The calls that one process was asked for in a launch, beside those it counted. They differ if the candidate took over
// the loop that calls it, to save what the loop costs. A candidate could change the counters too; it would have to find
// them. On a GPU events time the calls, so that replacing the loop gains nothing.
class OrderedCalls {
 public:
  void begin(std::vector<RunnerDispatch> counted) { before_ = std::move(counted), ordered_ = 0; }
  void add(size_t calls) { ordered_ += static_cast<int64_t>(calls); }
  // What it counted since begin(), by operator.
  std::vector<RunnerDispatch> since(std::vector<RunnerDispatch> counted) const {
    return dispatches_since(before_, std::move(counted));
  }
  std::optional<Failure> compare(const std::vector<RunnerDispatch>& since, std::string_view op) const {
    int64_t counted = 0;
    for (const RunnerDispatch& d : since) counted += d.op == op ? d.calls : 0;
    if (counted == ordered_) return std::nullopt;
    return Failure{Verdict::kTampered,
                   fmt::format("Its process was asked for {} calls while it was timed, and counted {}: something else "
                               "than the runner's loop made them.",
                               ordered_, counted)};
  }

 private:
  std::vector<RunnerDispatch> before_;
  int64_t ordered_ = 0;
};

}  // namespace fk
