// Compares a model with the user's candidates to the same model without: times of alternating processes
// (measure/alternating.h), as one ratio.
#pragma once

#include <vector>

#include "measure/paired.h"

namespace fk {

// Of one process, in ms, by iteration. The same iteration has the same prompt in every process.
struct TtftTimes {
  std::vector<double> prefill_ms;
  std::vector<double> decode_ms;  // empty for models that do not decode
};

struct TtftRounds {
  std::vector<TtftTimes> without;  // one more than `with`: before, between and after them
  std::vector<TtftTimes> with;
};

struct TtftComparison {
  PairedResult prefill;
  PairedResult decode;  // meaningless for models that do not decode
};

TtftComparison compare_rounds(const TtftRounds& rounds, uint64_t seed = 0);

}  // namespace fk
