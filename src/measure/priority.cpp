#include "measure/priority.h"

#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>

namespace fk {
namespace {

constexpr id_t kThisThread = 0;  // on Linux a priority belongs to a thread
constexpr int kFirst = -10, kDefault = 0;
// The scheduler of Linux 6.6 lets those with the shortest slice go first; since 6.12 everybody may ask for one. Earlier
// ones ignore it.
constexpr uint64_t kShortestSliceNs = 100'000, kDefaultSlice = 0;

// The first version of the kernel's struct sched_attr; its header cannot be included beside <sched.h>.
struct Scheduling {
  uint32_t size = sizeof(Scheduling), policy = SCHED_OTHER;
  uint64_t flags = 0;
  int32_t nice = 0;
  uint32_t priority = 0;
  uint64_t runtime_ns = 0, deadline_ns = 0, period_ns = 0;
};
static_assert(sizeof(Scheduling) == 48);

void set_slice(uint64_t ns) {
  if (sched_getscheduler(kThisThread) != SCHED_OTHER) return;
  Scheduling wanted;
  wanted.nice = getpriority(PRIO_PROCESS, kThisThread);
  wanted.runtime_ns = ns;
  syscall(SYS_sched_setattr, kThisThread, &wanted, 0);
}

}  // namespace

AheadOfOthers::AheadOfOthers()
    : before_(getpriority(PRIO_PROCESS, kThisThread)),
      raised_(before_ > kFirst && before_ <= kDefault && setpriority(PRIO_PROCESS, kThisThread, kFirst) == 0) {
  set_slice(kShortestSliceNs);
}

AheadOfOthers::~AheadOfOthers() {
  set_slice(kDefaultSlice);
  if (raised_) setpriority(PRIO_PROCESS, kThisThread, before_);
}

}  // namespace fk
