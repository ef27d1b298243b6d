// The processor time of this process: unlike the time that passes, other processes add nothing to it.
#pragma once

#include <time.h>

namespace fk {

class CpuStopwatch {
 public:
  double elapsed_s() const { return now_s() - start_s_; }

 private:
  static double now_s() {
    timespec now{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
  }

  double start_s_ = now_s();
};

}  // namespace fk
