// The calls of a judgement, planned from the secret seed before the first call.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "candidate/subject.h"
#include "validate/input_families.h"
#include "validate/judge.h"

namespace fk {

struct PlannedCall {
  std::string label;
  const InputFamily* family = nullptr;
  Workload workload = {};
  uint64_t seed = 0;  // of the inputs; equal seed, family and workload give equal data
  int weights = 0;    // which of two sets is bound; families with weights have their own
  Placement placement = Placement::kNew;
  bool recorded = false;   // with recorded values instead of generated ones
  bool same_bits = false;  // the previous call had the same data: bits must be equal
  bool essential = false;  // made even if the time is over, and not skipped if the baseline is inaccurate
};

struct PlanShapes {
  Workload small;  // for families and replays
  Workload full;   // the workload's own shape, shrunk if the oracle would take too long
  bool full_differs = false;
  bool recorded = false;       // there are recorded values for the full shape
  bool large_weights = false;  // making weights takes seconds: families with their own weights are skipped
  bool special = false;        // an input has special values
};

std::vector<PlannedCall> plan_calls(const PlanShapes& shapes, const JudgeOptions& options);

}  // namespace fk
