// The task linter: checks whether an operator with these arguments and this workload can tell a right kernel from a
// wrong one. A task that cannot is not scored.
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
  double oracle_seconds = 0.05;  // for each reference
  double seconds = 10;           // for everything; what does not fit is skipped, with a note
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
  double honest_margin = 0;  // the smallest; infinity if the baseline is exact
  double cheat_margin = 0;   // the smallest; infinity if only the right answer passes
  std::string cheapest_cheat;
  // Weights of a composition that this batch does not use, as decoding uses no sinks of prefill: a candidate that
  // ignores them is right here, and other batches judge them.
  std::vector<std::string> unused_weights;
  std::vector<std::string> notes;

  bool valid() const { return findings.empty(); }
  std::optional<Failure> failure() const;  // INVALID_TASK with the first finding
};

// Indices, tables and positions are not varied: a change could make them invalid.
TaskReport check_task(const OperatorInfo& info, const Fields& init, const Workload& workload, Subject& baseline,
                      const TaskCheckOptions& options);

}  // namespace fk
