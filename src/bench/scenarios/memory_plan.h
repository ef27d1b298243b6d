// Computes the memory of a scenario before it is allocated.
#pragma once

#include <cstdint>
#include <string>

#include "bench/scenarios/scenario.h"
#include "measure/machine_limits.h"

namespace fk {

struct MemoryPlan {
  uint64_t inputs_bytes = 0;
  uint64_t weights_bytes = 0;
  uint64_t outputs_bytes = 0;
  uint64_t states_bytes = 0;   // keys and values of all layers, and what else is kept between calls
  uint64_t scratch_bytes = 0;  // between the parts of a composition

  uint64_t total_bytes() const { return inputs_bytes + weights_bytes + outputs_bytes + states_bytes + scratch_bytes; }
};

// Builds the operator without weights and makes a dry run.
MemoryPlan plan_memory(const Scenario& scenario);

// Empty if `copies` times the plan fits into available memory; else one sentence with the sizes. A judge needs more
// than one copy: inputs for both sides, and the oracle's in f64.
std::string refuse_memory(const Scenario& scenario, const MemoryPlan& plan, const MemoryInfo& machine,
                          double copies = 1);

}  // namespace fk
