// Pins the calling thread to the first core that it may use, so that judge and candidate exchange data through the same
// caches.
#pragma once

#include <sched.h>

#include "measure/priority.h"

namespace fk {

// Permanently. Threads started later inherit it.
void pin_to_first_core();

// Pins while the object lives, ahead of other programs.
class OnFirstCore {
 public:
  OnFirstCore();
  ~OnFirstCore();
  OnFirstCore(const OnFirstCore&) = delete;
  OnFirstCore& operator=(const OnFirstCore&) = delete;

 private:
  cpu_set_t before_;
  bool known_;
  AheadOfOthers priority_;
};

}  // namespace fk
