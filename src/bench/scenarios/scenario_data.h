// The tensors of a scenario's call: generated values, or golden ones if the scenario has them, with its strides.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "bench/scenarios/scenario.h"
#include "core/memory.h"
#include "validate/input_maker.h"

namespace fk {

// Makes the data of calls for judging and timing. The scenario's generators and strides apply to every workload; its
// golden values and blocks only to its own, which is the recorded call.
class ScenarioInputs final : public InputMaker {
 public:
  // Reads the golden values. Throws Error where a file is missing, does not fit, or where strides are not of rows.
  explicit ScenarioInputs(const Scenario& scenario);

  // Cached: generating weights can take longer than judging, and every part of a run needs the same.
  SharedParams params(const Node& root, uint64_t seed) const override;
  Inputs specs(const Node& root, const Workload& workload) const override;
  std::vector<int64_t> row_gaps() const override { return row_gaps_; }
  bool has_recorded() const override { return !golden_.empty() || !tables_.empty(); }
  CallData make_recorded(const Node& root, const Workload& workload, uint64_t seed) const override;

 private:
  const Scenario scenario_;
  mutable SharedParams params_;  // of params_seed_
  mutable uint64_t params_seed_ = 0;
  std::vector<int64_t> row_gaps_;             // by argument
  std::map<size_t, Tensor> golden_;           // by argument
  std::vector<std::vector<int32_t>> tables_;  // blocks of each sequence; empty: scattered by the seed
};

// Elements between the rows of a tensor with these strides. There may be gaps between rows, but not inside a row.
// Throws Error for other strides.
int64_t row_gap_of(const Shape& shape, const std::vector<int64_t>& strides);
bool has_gaps_between_rows_only(const Shape& shape, const std::vector<int64_t>& strides);

// Reads "file#tensor" of a scenario.
Tensor read_golden(const std::string& reference);

// Builds the operator, fills everything and calls it once with the best implementations of this machine. Outputs stay
// in `outputs`.
void run_scenario_once(const Scenario& scenario, uint64_t seed, ThreadPool& pool, std::vector<Tensor>& outputs);

}  // namespace fk
