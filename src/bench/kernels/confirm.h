// A new best is measured twice. Of many candidates the luckiest looks best, and so does one that passes on some seeds
// only; neither does so again on fresh ones.
#pragma once

#include <functional>

#include "bench/kernels/kernel_bench.h"

namespace fk {

// Whether its whole interval lies above `best`, a speed-up, and it is FASTER than the baseline; and ranked at all.
bool beats(const KernelResult& result, double best);

// Measures a scenario, and where that beats `best` once more on fresh seeds: see KernelResult::confirmation. Where the
// second time finds it wrong, it is wrong, and that is the result. `stop`: asked before the second time, which is left
// out then; the first stays unconfirmed.
KernelResult measure_and_confirm(const std::function<KernelResult(const KernelOptions&)>& measure,
                                 const KernelOptions& options, double best, const std::function<bool()>& stop);

}  // namespace fk
