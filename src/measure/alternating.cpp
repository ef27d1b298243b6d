#include "measure/alternating.h"

#include <cmath>

#include "core/check.h"
#include "measure/timer.h"

namespace fk {

PairedResult compare_alternating(const std::vector<ProcessTimes>& without, const std::vector<ProcessTimes>& with,
                                 uint64_t seed) {
  // Times vary more between processes than between calls of one process, so the limit for an invalid result is higher;
  // the smallest change that counts grows with it.
  constexpr double kMostControlOff = 0.05;
  FK_CHECK(without.size() == with.size() + 1);
  PairedSamples samples, control;
  for (size_t round = 0; round < with.size(); ++round) {
    const ProcessTimes &before = without[round], &middle = with[round], &after = without[round + 1];
    FK_CHECK(before.size() == middle.size() && after.size() == middle.size());
    std::vector<TimePair> pairs, own;
    for (size_t i = 0; i < middle.size(); ++i) {
      pairs.push_back({kNsPerMs * std::sqrt(before[i] * after[i]), kNsPerMs * middle[i]});
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

}  // namespace fk
