// How many pairs a timing measures, and when it goes on because the result is not known well enough.
#pragma once

#include <algorithm>
#include <cstdint>

#include "bench/kernels/pair_timer.h"
#include "measure/timer.h"

namespace fk {

// Fills the time of the launches (TimingOptions::aim_s): with up to three times the requested pairs, or with fewer.
// While the interval is wide, a quarter more time is allowed, and three times as much on a busy machine.
//
// Times are those of timed rounds; what else a launch takes is estimated from them (kUntimedRounds, kLaunchS): a
// candidate that sleeps where no clock runs must not decide how much is measured.
class LaunchTime {
 public:
  // The whole time, or zero for no limit.
  explicit LaunchTime(double aim_s) : aim_s_(aim_s) {}

  static constexpr int kLeastPairs = 4;     // of a launch
  static constexpr int kTimesTheShare = 3;  // its share of the requested pairs
  static constexpr int kUntimedRounds = 5;  // what warm-ups, judged rounds and calls alone of a launch take
  static constexpr double kLaunchS = 0.07;  // the rest of a launch: starting and ending its processes
  // Asked in the first launch, when its timed rounds have taken so long: whether it ends. It ends early, because the
  // others have as many pairs and up to half as many again.
  bool ends_launch(int launches, int pairs, double timed_s) const;
  // Whether so many launches that were not planned would take too long; timed_s is of all that were made.
  bool too_late(int more, int made, double timed_s) const;
  bool is_limited() const { return aim_s_ > 0; }
  void allow_for_load() { busy_ = true; }

 private:
  double aim_s_;
  bool busy_ = false;
};

// Decides how many launches a timing makes and how many pairs each of them measures.
class LaunchPlan {
 public:
  explicit LaunchPlan(const TimingOptions& options);

  // Whether to make another launch: the planned ones, then more while the interval is wide.
  bool another_launch(const TimingResult& so_far, double call_ns);
  int launch() const { return launch_; }
  // Other programs use the cores, so that samples vary more.
  void allow_for_load() { time_.allow_for_load(); }

  // A launch measures its share of the requested pairs, or what fits into its time, plus a number derived from
  // `secret`.
  void begin_pairs(uint64_t secret);
  bool another_pair();
  // The time of a timed round, without what a candidate could stretch at will.
  void add_round(double round_s);
  int pair() const { return pair_; }
  // Pairs that this launch has in any case; the first one may end after few.
  int sure_pairs() const {
    return launch_ == 0 && time_.is_limited() ? std::min(pairs_, LaunchTime::kLeastPairs) : pairs_;
  }
  bool is_last_pair() const { return pair_ + 1 == pairs_; }

  double done() const;  // the part of the planned work, from 0 to 1

 private:
  bool may_go_on(const TimingResult& so_far, double call_ns) const;
  double launch_s() const;  // of this launch: its timed rounds, and an estimate of the others

  const TimingOptions& options_;
  LaunchTime time_;
  int launches_;  // planned
  int launch_ = -1, pair_ = -1, pairs_ = 0;
  int fitting_ = 0;  // pairs of every launch, if their time decides
  Stopwatch watch_;
  double asked_s_ = 0;    // time for the planned launches
  double earlier_s_ = 0;  // of earlier launches
  double rounds_s_ = 0;   // timed ones of this launch
};

}  // namespace fk
