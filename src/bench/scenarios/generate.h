// The scenarios of the models of the catalog: every operator of every model, at every number of ranks, in every step.
//
// A model's tree is built for one rank, and a dry run on a step's batch records every call as a scenario. So shapes,
// strides and counts are always those of the model.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bench/scenarios/scenario.h"

namespace fk {

// A step of an engine, by name: "decode-32", "prefill-512".
struct Step {
  std::string name;
  std::vector<Sequence> sequences;
};

// Decoding: so many sequences of one new token each, contexts ragged. Prefilling: so many tokens of ragged prompts,
// some of which continue earlier chunks. No sequence grows beyond max_context.
std::vector<Step> steps_of_all_sizes(int64_t max_context);

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
