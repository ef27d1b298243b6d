// What a candidate was timed against.
#pragma once

#include <span>

#include "candidate/runner/runner_process.h"

namespace fk {

// Whether nothing but oracles took the baseline's calls: the operator has no kernel on this device, or none that takes
// such a call. Compositions are as good as the operators they call.
bool only_oracles(std::span<const RunnerDispatch> baseline);

}  // namespace fk
