// The scenarios of the models of the catalog: every operator of every model, at every number of ranks, in every step.
//
// A model's tree is built for one rank, and a dry run on a step's batch records every call as a scenario. So shapes,
// strides and counts are always those of the model.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bench/scenarios/scenario.h"
#include "bench/scenarios/steps.h"

namespace fk {

// Scenarios that were left out, and why.
struct LeftOut {
  std::string what;
  std::string reason;
};

struct GeneratedScenarios {
  std::vector<Scenario> scenarios;  // by operator, in the order of the catalog
  std::vector<LeftOut> left_out;
};

// Without models in the selection: the published ones, not those made for tests. Operators that no model of the catalog
// has are represented by the cases of their contracts. Throws Error where a model or operator is not known.
GeneratedScenarios generate_scenarios(const ScenarioSelection& selection);

inline constexpr int64_t kTpSizes[] = {1, 2, 4, 8};

}  // namespace fk
