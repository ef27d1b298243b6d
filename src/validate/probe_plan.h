// The calls of a judgement, decided from the secret seed before the first one is made.
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
  uint64_t seed = 0;  // of the inputs; equal seed, family and workload mean equal data
  int weights = 0;    // which of two sets is bound; families with weights bring their own
  Placement placement = Placement::kNew;
  bool recorded = false;   // with the values that are known of it, in place of drawn ones
  bool same_bits = false;  // the call before had the same data: bits must be equal
  bool essential = false;  // made whatever the time, and not skipped for an inaccurate baseline
};

struct PlanShapes {
  Workload small;  // of families and replays
  Workload full;   // the workload's own shape, or as much of it as the oracle's time allows
  bool full_differs = false;
  bool recorded = false;       // the full shape is one whose values are known
  bool large_weights = false;  // making weights takes seconds: families that need their own are left out
};

std::vector<PlannedCall> plan_calls(const PlanShapes& shapes, const JudgeOptions& options);

}  // namespace fk
