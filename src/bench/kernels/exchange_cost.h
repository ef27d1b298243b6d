// ExchangeCost: the overhead of a sample besides its kernels, and how much of it a candidate could save at most.
//
// A sample is timed from outside: from resuming the runner's threads until all of them are stopped. This includes
// waking, the runner's own loop and stopping, the same for every side. The median of samples without calls is
// subtracted from every sample. A candidate cannot make these steps faster than the fastest one seen, so it can hide at
// most median - minimum this way. Only samples among the timed ones count: a process that is woken twice in a row wakes
// 5 us faster than one that waited for three others. A candidate that replaces the loop of the runner can save the
// work of the runner for each call, which is all that lies between two kernels: samples of a kernel that computes
// nothing measure it, each beside one without calls. They have many calls, so that it is the work of calls like the one
// before; the first one after other work takes longer. Samples during which other programs used the core count only if
// there are not enough others: the pairs they would belong to are dropped too, and they would make the spread useless
// on a busy machine.
#pragma once

#include <vector>

namespace fk {

struct EmptySample {
  double ns = 0;
  bool disturbed = false;  // by other programs
};

class ExchangeCost {
 public:
  // Without calls, among the timed ones.
  void add_empty(EmptySample sample) { empty_.add(sample.ns, sample.disturbed); }
  // Before the timed ones, back to back: one without calls, one with all calls so many times, of an empty kernel.
  void add_loop(EmptySample empty, EmptySample with_loop, size_t times = 1) {
    before_.add(empty.ns, empty.disturbed);
    loops_.add((with_loop.ns - empty.ns) / static_cast<double>(times), empty.disturbed || with_loop.disturbed);
  }

  double typical_ns() const;  // overhead of a sample (waking and stopping a runner)
  double spread_ns() const;   // median - minimum
  double loop_ns() const;     // of the runner's loop over all calls of a sample
  double could_hide_ns() const { return spread_ns() + loop_ns(); }  // in one sample

 private:
  struct Times {
    std::vector<double> undisturbed, all;
    void add(double ns, bool disturbed);
    const std::vector<double>& best() const { return undisturbed.size() < kEnough ? all : undisturbed; }
    static constexpr size_t kEnough = 3;
  };
  const std::vector<double>& samples() const;

  Times empty_, before_, loops_;
};

// OutsideTime: the same on a GPU, where events time the calls. A process can forge events, but not our clock: if our
// time exceeds the events by more than it does for the baseline, the difference is added to the candidate's time. A
// difference as large as that between the baseline and its control is allowed.
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

// The number of calls per sample: so many that the spread of the overhead stays below the resolution of half a percent,
// and that a sample is not shorter than `least_ns`; limited for machines that are too noisy.
int calls_per_sample(double call_ns, double spread_ns, double least_ns);

}  // namespace fk
