// Whether a candidate was timed against a kernel or only against the oracle.
#pragma once

#include <span>

#include "sandbox/runner_process.h"

namespace fk {

// Whether only oracles ran the baseline's calls: the operator has no kernel on this device, or none that supports such
// a call. For compositions the operators they call decide.
bool only_oracles(std::span<const RunnerDispatch> baseline);

}  // namespace fk
