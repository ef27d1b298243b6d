// ExchangeCost: what a sample takes besides its kernels, and how much of that a candidate could save at most.
//
// A sample is timed from outside: from letting the runner's threads go until all of them have stopped. In between lie
// waking, the runner's own loop and stopping, the same for every side. The median of samples without calls is taken off
// every sample. A candidate cannot make these steps of the kernel quicker than the quickest seen, so it hides at most
// median - minimum that way; and one that takes over the loop of the runner can leave out what the loop does for each
// call, which samples whose calls run no kernel tell.
#pragma once

#include <vector>

namespace fk {

class ExchangeCost {
 public:
  void add_empty(double ns) { empty_.push_back(ns); }                      // a sample without calls
  void add_without_kernels(double ns) { without_kernels_.push_back(ns); }  // one with all calls, but no kernel

  double typical_ns() const;                                        // of an exchange
  double spread_ns() const;                                         // median - minimum
  double loop_ns() const;                                           // of the runner's loop over all calls of a sample
  double could_hide_ns() const { return spread_ns() + loop_ns(); }  // in one sample

 private:
  std::vector<double> empty_, without_kernels_;
};

// OutsideTime: the same on a GPU, whose events say when calls began and ended. A process can forge what they say, but
// not our clock: what that has beyond them more than it has for the baseline is charged to the candidate. By how much
// the baseline's control differs from it, anybody may.
class OutsideTime {
 public:
  // Of one launch and one call: our time beyond the events', minus the baseline's.
  void add(double candidate_ns, double control_ns) {
    candidate_.push_back(candidate_ns);
    control_.push_back(control_ns);
  }
  double charge_ns() const;
  double could_hide_ns() const;

 private:
  std::vector<double> candidate_, control_;
};

// So many calls that what the spread of exchanges hides stays below the resolution that is claimed, half a percent, and
// that a sample is no shorter than `least_ns`; with a limit, for a machine that is too busy to tell.
int calls_per_sample(double call_ns, double spread_ns, double least_ns);

}  // namespace fk
