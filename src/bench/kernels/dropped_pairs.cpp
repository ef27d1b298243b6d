#include "bench/kernels/dropped_pairs.h"

#include <fmt/format.h>

namespace fk {

void drop_slow_rounds(const ClockWatch& clock, std::span<const double> looks, std::vector<TimePair>& samples,
                      std::vector<TimePair>& control) {
  auto drop = [](TimePair& pair) {
    if (pair.dropped == Dropped::kNo) pair.dropped = Dropped::kSlowClock;
  };
  for (size_t i = 0; i < looks.size(); ++i) {
    if (!clock.slow(looks[i])) continue;
    drop(samples[i]);
    drop(control[i]);
  }
}

std::string advice_on_threads(const PairedResult& result, int threads_seen, int threads) {
  size_t switched = result.dropped[static_cast<size_t>(Dropped::kContextSwitch)];
  if (result.invalid.empty() || 2 * switched < result.pairs || threads_seen <= threads) return {};
  return fmt::format(
      " It runs {} threads on {} core{}, where they wait for each other: give it more with --threads, or let it start "
      "no more threads than ctx.threads().",
      threads_seen, threads, threads == 1 ? "" : "s");
}

}  // namespace fk
