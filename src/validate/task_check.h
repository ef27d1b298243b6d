// The task linter: whether an operator with these arguments and this workload can tell a right kernel from a wrong one.
// A task that cannot may not score.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "candidate/subject.h"
#include "ops/registry.h"
#include "validate/input_maker.h"

namespace fk {

struct TaskCheckOptions {
  uint64_t seed = 0;
  double oracle_seconds = 0.05;  // of each reference
  double seconds = 10;           // of all; what does not fit is left out and said so
  double honest_margin = 3;      // bound / the baseline's error, at least
  double cheat_margin = 20;      // error of the cheapest cheat / bound, at least
  double moved = 3;              // bounds the reference must move by when an input or the scale changes
  const InputMaker* inputs = &contract_inputs();
};

struct TaskFinding {
  enum class Rule : uint8_t { kBaseline, kConstant, kInput, kWeight, kScale, kHonestMargin, kCheatMargin };
  Rule rule;
  std::string sentence;
};

struct TaskReport {
  std::vector<TaskFinding> findings;
  double honest_margin = 0;  // the smallest; infinity where the baseline is exact
  double cheat_margin = 0;   // the smallest; infinity where nothing but the right answer passes
  std::string cheapest_cheat;
  std::vector<std::string> notes;

  bool valid() const { return findings.empty(); }
  std::optional<Failure> failure() const;  // INVALID_TASK with the first finding
};

// Indices, tables and positions are not varied: they are valid by construction and would not be after a change.
TaskReport check_task(const OperatorInfo& info, const Fields& init, const Workload& workload, Subject& baseline,
                      const TaskCheckOptions& options);

}  // namespace fk
