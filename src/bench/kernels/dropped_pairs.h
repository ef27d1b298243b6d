// Pairs that are dropped from a timing: those of a slow clock, and what to say if threads had to wait for cores.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "measure/core_clock.h"
#include "measure/paired.h"

namespace fk {

// The clock of a CPU cannot be read directly, so it is looked at around every round; `looks` has the slower of the two
// for each pair of a launch.
void drop_slow_rounds(const ClockWatch& clock, std::span<const double> looks, std::vector<TimePair>& samples,
                      std::vector<TimePair>& control);

// A sentence for a run that is not ranked because threads had to wait, if the candidate may be able to avoid it; else
// empty.
std::string advice_on_threads(const PairedResult& result, int threads_seen, int threads);

}  // namespace fk
