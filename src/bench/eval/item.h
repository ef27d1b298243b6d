// The result of one (model, ranks) pair: speed-ups with their intervals, and whether its outputs are right, from what
// the processes of both sides wrote.
#pragma once

#include <string>
#include <vector>

#include "bench/eval/pair_task.h"
#include "bench/eval/score.h"
#include "core/dtype.h"

namespace fk {

// What the processes of a pair wrote, as bench/eval/side.h describes it.
struct PairResults {
  Json reference;
  std::vector<Json> without, with;  // one more without
  Json scored;                      // null for encoders
};

// The item as JSON: status "ok", speed-ups, alignment, and one object per workload.
Json item_of(const PairTask& task, Task model_task, DType dtype, const PairResults& results);
// One that did not end, and why: "loading", "timed", ...
Json failed_item(const PairTask& task, const std::string& stage, const std::string& error);

// The part of an item that the score needs.
EvalItem score_item(const Json& item);

// The requests whose tokens the baseline scores, drawn anew for every evaluation: of both sides, from all rounds.
Json choose_scored(const std::vector<EvalWorkload>& workloads, const PairResults& results, uint64_t seed);

}  // namespace fk
