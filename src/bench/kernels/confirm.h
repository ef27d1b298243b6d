// Measures a new best result a second time. The best of many candidates may be only lucky, or may pass only with some
// seeds; a second measurement with new seeds detects both.
#pragma once

#include <functional>

#include "bench/kernels/kernel_bench.h"

namespace fk {

// Whether the result is ranked, is FASTER than the baseline, and its whole interval is above the speed-up `best`.
bool beats(const KernelResult& result, double best);

// Measures a scenario, and if it beats `best`, once more with new seeds: see KernelResult::confirmation. If the
// candidate fails the second time, that failure is the result. `stop`: if it returns true before the second
// measurement, that is skipped and the first stays unconfirmed.
KernelResult measure_and_confirm(const std::function<KernelResult(const KernelOptions&)>& measure,
                                 const KernelOptions& options, double best, const std::function<bool()>& stop);

}  // namespace fk
