// A model with the user's candidates against the same model without: times of alternating processes, as one ratio.
//
// The processes take turns, without, with, without, with, without: each one with candidates is compared with the two
// around it, so that a machine that slowly becomes faster or slower favours nobody. Two neighbours without candidates
// are the control: how far the model differs from itself.
#pragma once

#include <vector>

#include "measure/paired.h"

namespace fk {

// Of one process, in ms, by iteration. The same iteration has the same prompt in every process.
struct TtftTimes {
  std::vector<double> prefill_ms, decode_ms;
};

struct TtftRounds {
  std::vector<TtftTimes> without;  // one more than `with`: before, between and after them
  std::vector<TtftTimes> with;
};

struct TtftComparison {
  PairedResult prefill, decode;
};

TtftComparison compare_rounds(const TtftRounds& rounds, uint64_t seed = 0);

}  // namespace fk
