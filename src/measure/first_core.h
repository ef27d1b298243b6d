// Keeps the calling thread on the first core that it may use: what judge and judged write for each other then lies in
// the same caches.
#pragma once

#include <sched.h>

namespace fk {

// For good. Threads started from here on inherit it.
void pin_to_first_core();

// As long as it lives.
class OnFirstCore {
 public:
  OnFirstCore();
  ~OnFirstCore();
  OnFirstCore(const OnFirstCore&) = delete;
  OnFirstCore& operator=(const OnFirstCore&) = delete;

 private:
  cpu_set_t before_;
  bool known_;
};

}  // namespace fk
