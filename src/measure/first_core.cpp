#include "measure/first_core.h"

namespace fk {

void pin_to_first_core() {
  cpu_set_t all, first;
  if (sched_getaffinity(0, sizeof all, &all) != 0) return;
  for (int i = 0; i < CPU_SETSIZE; ++i) {
    if (!CPU_ISSET(i, &all)) continue;
    CPU_ZERO(&first);
    CPU_SET(i, &first);
    sched_setaffinity(0, sizeof first, &first);
    return;
  }
}

OnFirstCore::OnFirstCore() : known_(sched_getaffinity(0, sizeof before_, &before_) == 0) {
  if (known_) pin_to_first_core();
}

OnFirstCore::~OnFirstCore() {
  if (known_) sched_setaffinity(0, sizeof before_, &before_);
}

}  // namespace fk
