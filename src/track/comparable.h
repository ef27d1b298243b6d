// Which runs of an operator can be compared: means over the same scenarios, on the same device.
#pragma once

#include <string>
#include <vector>

#include "track/records.h"

namespace fk {

struct ComparableRuns {
  std::string device, device_name;
  std::string timed_set;  // of every mean in it; empty where none of the runs has one
  int64_t timed = 0;      // scenarios of that set
  std::vector<OperatorRecord> runs;
};

// Groups, and runs within each, in the order given. A run that failed, or has no time that counts, has no mean: it is
// put into the group of the runs that judged the same scenarios.
std::vector<ComparableRuns> comparable_runs(const std::vector<OperatorRecord>& runs);

}  // namespace fk
