#include "bench/kernels/floor_verdict.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace fk {
namespace {

// Of the baseline's calls in a sample. An idle machine needs a tenth or less.
constexpr double kMostExchange = 0.75;

// The faster one of baseline and control, by their medians.
double baseline_ns(const TimingResult& timing) {
  std::vector<double> control;
  for (const auto& launch : timing.control)
    for (const TimePair& pair : launch)
      if (pair.dropped == Dropped::kNo) control.push_back(pair.candidate_ns);
  double own = timing.paired.baseline.median;
  return control.empty() ? own : std::min(own, median(control));
}

// "read 3.15 MB": the part of the floor that takes longest.
std::string what_takes_longest(const Cost& cost, const Floor& floor) {
  if (floor.flops_s >= floor.bytes_s())
    return fmt::format("do {:.3f} GFLOP", (cost.matrix_flops + cost.vector_flops) * 1e-9);
  if (floor.read_s >= floor.written_s) return fmt::format("read {:.3f} MB", cost.read_bytes * 1e-6);
  return fmt::format("write {:.3f} MB", cost.written_bytes * 1e-6);
}

}  // namespace

std::string lost_in_exchange(const TimingResult& timing) {
  if (timing.failure || timing.paired.candidate.count == 0) return {};
  if (timing.exchange_ns <= kMostExchange * timing.calls_per_sample * baseline_ns(timing)) return {};
  return fmt::format(
      "Waking and stopping the process takes {:.0f} us, about as long as all calls of a sample: the machine is too "
      "busy to time them.",
      timing.exchange_ns * 1e-3);
}

FloorVerdict hold_against_floor(const TimingResult& timing, const Cost& cost, const Floor& floor) {
  using Kind = FloorVerdict::Kind;
  const PairedResult& paired = timing.paired;
  if (timing.failure || paired.candidate.count == 0 || 2 * paired.dropped_pairs() > paired.pairs) return {};
  if (!(floor.seconds > 0)) return {};
  double floor_ns = floor.seconds * 1e9, took = paired.candidate.median, own = baseline_ns(timing);
  bool gain = paired.verdict != SpeedVerdict::kSame && paired.verdict != SpeedVerdict::kSlower && took < own;
  std::string needs =
      fmt::format("the {:.2f} us this machine needs to {}", floor_ns * 1e-3, what_takes_longest(cost, floor));
  FloorVerdict verdict;
  if (own < (1 - kFloorError) * floor_ns) {
    verdict.note = fmt::format("The baseline takes {:.2f} us, less than {}: that floor is too high and is ignored.",
                               own * 1e-3, needs);
    if (gain && took < kImpossible * own) {
      verdict.kind = Kind::kNotRanked;
      verdict.sentence = fmt::format(
          "It took {:.2f} us, much less than the baseline, which itself takes less than {}: the gain is not ranked.",
          took * 1e-3, needs);
    }
    return verdict;
  }
  if (paired.candidate.q3 < kImpossible * floor_ns) {
    verdict.kind = Kind::kImpossibleTime;
    verdict.sentence = fmt::format("It took {:.2f} us, far less than {}.", took * 1e-3, needs);
  } else if (gain && took < (1 - kFloorError) * floor_ns) {
    verdict.kind = Kind::kNotRanked;
    verdict.sentence = fmt::format("It took {:.2f} us, less than {}: the gain is not ranked.", took * 1e-3, needs);
  }
  return verdict;
}

}  // namespace fk
