// Compares a measured time with the floor of its call: possible, a gain that is not ranked, or an impossible time.
//
// A floor may be wrong: a cost that counts too much, or a machine that was busy when its rates were measured. Three
// rules protect honest candidates from that, and prevent ranking of impossible gains:
//
// 1. Faster than the floor by more than the floor's own error is never ranked, at any size.
// 2. Much faster, in three quarters of the samples, is IMPOSSIBLE_TIME.
// 3. If the baseline itself (or its control) is faster than the floor, the floor is wrong for this call: a note reports
//    it, and there is no IMPOSSIBLE_TIME. The baseline's time then replaces the floor: gains down to `kImpossible` of
//    it are ranked, larger ones are not, since a small error of the floor does not explain them.
#pragma once

#include <cstdint>
#include <string>

#include "bench/kernels/kernel_floor.h"
#include "bench/kernels/pair_timer.h"
#include "ops/workload.h"

namespace fk {

// By how much a floor may be too high. On a busy machine the rates of separate short measurements differed by 1 % in a
// core's own caches, by 3 % in main memory and by 6 % in memory just evicted; a run has a dozen of them or more, and
// uses the best one.
inline constexpr double kFloorError = 0.05;
// A time below this share of the floor is impossible. Times between this and the floor may come from a loop that is
// faster than our probes: they are not ranked, but not called impossible either.
inline constexpr double kImpossible = 0.7;

struct FloorVerdict {
  enum class Kind : uint8_t { kPossible, kNotRanked, kImpossibleTime };
  Kind kind = Kind::kPossible;
  std::string sentence;  // why it is not kPossible
  std::string note;      // if the floor itself is wrong
  // Whether to measure the floor again, for longer, before the verdict is reported.
  bool doubtful() const { return kind != Kind::kPossible || !note.empty(); }
};

// Why the times of a run on the CPU mean nothing; empty if they do. On a busy machine waking and stopping a process can
// take longer than the calls of a sample: what is left after it is subtracted is then noise, of the baseline as of the
// candidate. Only the baseline's times decide, so a candidate that does nothing is still found.
std::string lost_in_exchange(const TimingResult& timing);

// `cost` is that of one call. A timing that failed, or of which most pairs were dropped, is always possible. One that
// is invalid for other reasons is held against the floor all the same: a candidate must not avoid the verdict by noise.
FloorVerdict hold_against_floor(const TimingResult& timing, const Cost& cost, const Floor& floor);

}  // namespace fk
