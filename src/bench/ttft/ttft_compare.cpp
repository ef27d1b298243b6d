#include "bench/ttft/ttft_compare.h"

#include "measure/alternating.h"

namespace fk {
namespace {

PairedResult compare_times(const TtftRounds& rounds, std::vector<double> TtftTimes::*times, uint64_t seed) {
  auto of_side = [&](const std::vector<TtftTimes>& side) {
    std::vector<ProcessTimes> all;
    for (const TtftTimes& process : side) all.push_back(process.*times);
    return all;
  };
  return compare_alternating(of_side(rounds.without), of_side(rounds.with), seed);
}

}  // namespace

TtftComparison compare_rounds(const TtftRounds& rounds, uint64_t seed) {
  TtftComparison comparison{compare_times(rounds, &TtftTimes::prefill_ms, seed), {}};
  if (!rounds.with.front().decode_ms.empty()) comparison.decode = compare_times(rounds, &TtftTimes::decode_ms, seed);
  return comparison;
}

}  // namespace fk
