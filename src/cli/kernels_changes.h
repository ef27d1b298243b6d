// What changed for a candidate since the previous run: for `kernels --watch`.
#pragma once

#include <string>
#include <vector>

#include "cli/kernels_report.h"

namespace fk {

// A line for each scenario of both runs whose verdict changed, or whose speed-up changed beyond both intervals; and one
// line for the others that were timed. Empty where the runs have no scenario in common.
std::string changes_since(const std::vector<KernelRow>& before, const std::vector<KernelRow>& after);

}  // namespace fk
