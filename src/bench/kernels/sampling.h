// How many pairs a timing measures, and when it goes on because the result is not known well enough.
#pragma once

#include <cstdint>

#include "bench/kernels/pair_timer.h"
#include "measure/timer.h"

namespace fk {

// Keeps the launches within their time (TimingOptions::aim_s): if the planned ones would take longer they have fewer
// pairs, and if these would be too few there are six launches, in which the speeds of the memories cancel (turns.h).
// While the interval is wide, a quarter more time is allowed for long calls, and three times as much on a busy machine.
class LaunchTime {
 public:
  // The whole time, or zero for no limit.
  explicit LaunchTime(double aim_s) : aim_s_(aim_s) {}

  static constexpr int kLeastLaunches = 6, kLeastPairs = 4;
  static constexpr int kPairsOfMany = 6;  // at least, in each of more launches
  // Asked in the first launch, when its pairs have taken so long: whether it ends, and all others with as many pairs.
  bool ends_launch(int launches, int pairs, double measured_s) const;
  // How many of the planned launches to make, asked before each of them.
  int affordable(int planned, int made, double elapsed_s) const;
  // Whether so many launches that were not planned would take too long.
  bool too_late(int more, int made, double elapsed_s, double call_ns) const;
  void allow_for_load() { busy_ = true; }

 private:
  bool fits(int more, int made, double elapsed_s, double factor) const;

  double aim_s_;
  bool busy_ = false;
};

// Draws the launches that are judged again at their end: the first that is asked for, later as many as take 10 ms per
// launch, but at least an eighth.
class JudgedAgain {
 public:
  bool drawn(uint64_t secret) const;
  void took(double seconds) { seconds_ = seconds; }

 private:
  double seconds_ = 0;  // the last time
};

// Decides how many launches a timing makes and how many pairs each of them measures.
class LaunchPlan {
 public:
  LaunchPlan(const TimingOptions& options, int most_launches);

  // Whether to make another launch: the planned ones, then more while the interval is wide.
  bool another_launch(const TimingResult& so_far, double call_ns);
  int launch() const { return launch_; }
  // Other programs use the cores, so that samples vary more.
  void allow_for_load() { time_.allow_for_load(); }

  // Before the warm-up of a launch; the time of its pairs starts. It measures at least its share of the requested pairs,
  // plus a number derived from `secret`, unless their time decides.
  void begin_pairs(uint64_t secret);
  bool another_pair();
  int pair() const { return pair_; }
  int pairs() const { return pairs_; }
  bool is_last_pair() const { return pair_ + 1 == pairs_; }

  double done() const;  // the part of the planned work, from 0 to 1

 private:
  bool may_go_on(const TimingResult& so_far, double call_ns) const;

  const TimingOptions& options_;
  LaunchTime time_;
  int launches_, shares_;  // planned; of the requested pairs
  int launch_ = -1, pair_ = -1, pairs_ = 0;
  int fitting_ = 0;  // pairs of every launch, if their time decides
  Stopwatch watch_, pairs_watch_;
  double asked_s_ = 0;  // time for the planned launches
};

}  // namespace fk
