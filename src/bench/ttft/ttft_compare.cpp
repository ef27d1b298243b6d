#include "bench/ttft/ttft_compare.h"

#include <cmath>

#include "core/check.h"
#include "measure/timer.h"

namespace fk {
namespace {

// Times vary more between processes than between calls of one process, so the limit for an invalid result is higher;
// the smallest change that counts grows with it.
constexpr double kMostControlOff = 0.05;

PairedResult compare_times(const TtftRounds& rounds, std::vector<double> TtftTimes::*times, uint64_t seed) {
  FK_CHECK(rounds.without.size() == rounds.with.size() + 1);
  PairedSamples samples, control;
  for (size_t round = 0; round < rounds.with.size(); ++round) {
    const std::vector<double>&before = rounds.without[round].*times, &with = rounds.with[round].*times,
          &after = rounds.without[round + 1].*times;
    FK_CHECK(before.size() == with.size() && after.size() == with.size());
    std::vector<TimePair> pairs, own;
    for (size_t i = 0; i < with.size(); ++i) {
      pairs.push_back({kNsPerMs * std::sqrt(before[i] * after[i]), kNsPerMs * with[i]});
      bool turned = round % 2 == 1;  // so that a steady drift cancels out
      own.push_back({kNsPerMs * (turned ? after : before)[i], kNsPerMs * (turned ? before : after)[i]});
    }
    samples.push_back(std::move(pairs));
    control.push_back(std::move(own));
  }
  PairedOptions options;
  options.seed = seed;
  options.most_control_off = kMostControlOff;
  return compare_paired(samples, control, options);
}

}  // namespace

TtftComparison compare_rounds(const TtftRounds& rounds, uint64_t seed) {
  TtftComparison comparison{compare_times(rounds, &TtftTimes::prefill_ms, seed), {}};
  if (!rounds.with.front().decode_ms.empty()) comparison.decode = compare_times(rounds, &TtftTimes::decode_ms, seed);
  return comparison;
}

}  // namespace fk
