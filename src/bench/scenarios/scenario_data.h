// The tensors of a scenario's call: generated ones, real ones where the scenario has them, strides as it says.
#pragma once

#include <cstdint>
#include <vector>

#include "bench/scenarios/scenario.h"
#include "ops/materialize.h"

namespace fk {

struct ScenarioData {
  CallData data;               // data.given is dense, whatever the strides
  std::vector<OptView> given;  // what to call with: strided where the scenario says so
  std::vector<Tensor> strided;
  std::vector<KvLayer> kv_layers;
};

// `root` is the operator built with the scenario's init. Throws Error where a golden file is missing or does not fit.
ScenarioData make_scenario_data(const Node& root, const Scenario& scenario, uint64_t seed);

// A view of this shape with these strides into memory that `storage` then owns. Rows may lie apart; inside a row
// nothing may. Throws Error for other strides.
View make_strided(const TensorSpec& spec, const std::vector<int64_t>& strides, std::vector<Tensor>& storage);

// "file#tensor" of a scenario, read whole.
Tensor read_golden(const std::string& reference);

// Builds the operator, fills everything and calls it once with the best implementations of this machine. Outputs stay
// in `outputs`.
void run_scenario_once(const Scenario& scenario, uint64_t seed, ThreadPool& pool, std::vector<Tensor>& outputs);

}  // namespace fk
