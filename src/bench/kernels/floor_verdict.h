// What a measured time means beside the floor of its call: nothing, a gain that is not ranked, or an impossible time.
//
// A floor may be wrong: a cost that counts too much, a machine that was busy whenever its rates were measured. Three
// rules keep that from hurting anybody honest, and keep a gain that no machine can give from being ranked:
//
// 1. Faster than the floor by more than the floor's own error is never ranked, at any size.
// 2. Much faster, in three quarters of the samples, is IMPOSSIBLE_TIME.
// 3. Where the baseline itself (or its control) is faster than the floor, the floor is wrong for this call: a note says
//    so and nobody is accused. The baseline's time then takes its place: gains down to `kImpossible` of it are ranked,
//    larger ones are not, since a floor that is off by a little does not explain them.
#pragma once

#include <cstdint>
#include <string>

#include "bench/kernels/kernel_floor.h"
#include "bench/kernels/pair_timer.h"
#include "ops/workload.h"

namespace fk {

// By how much a floor may be too high. On a busy machine the rates of separate short measurements differed by 1 % in a
// core's own caches, by 3 % in main memory and by 6 % in memory just evicted; a run has a dozen of them or more, and
// the best one counts.
inline constexpr double kFloorError = 0.05;
// Faster than this share of the floor is not fast but wrong. What lies between is left to whoever finds a loop faster
// than all of ours: not ranked, but not accused either.
inline constexpr double kImpossible = 0.7;

struct FloorVerdict {
  enum class Kind : uint8_t { kPossible, kNotRanked, kImpossibleTime };
  Kind kind = Kind::kPossible;
  std::string sentence;  // why it is not kPossible
  std::string note;      // where the floor itself is wrong
  // Whether to measure the floor again, at length, before this is told to anybody.
  bool doubtful() const { return kind != Kind::kPossible || !note.empty(); }
};

// `cost` is that of one call. A timing that failed, or in which no pair counts, is always possible.
FloorVerdict hold_against_floor(const TimingResult& timing, const Cost& cost, const Floor& floor);

}  // namespace fk
