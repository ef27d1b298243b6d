#include <algorithm>

#include "sandbox/runner_process.h"

namespace fk {

// A call of many milliseconds is always interrupted, so a context switch alone is not a reason. If threads of the
// candidate wait for each other's cores, that is not caused by other programs: all cores together were busy with them.
// With more threads than cores some wait all the time, also while the process wakes and stops and uses no core: that is
// not counted.
bool RunTimes::core_was_taken(int cores, double exchange_ns) const {
  constexpr double kMatters = 0.01;  // share of the time that counts as a difference
  // All threads are resumed at once, and idle threads need a core for a moment before they sleep again.
  constexpr double kMoment = 5e3;
  double in_calls = static_cast<double>(ns) - (threads > cores ? exchange_ns : 0);
  double idle = cores * in_calls - static_cast<double>(cpu_ns);
  double taken = std::min(static_cast<double>(waited_ns), std::max(0.0, idle));
  return switches > 0 && taken > kMatters * static_cast<double>(ns) + (threads - 1) * kMoment;
}

}  // namespace fk
