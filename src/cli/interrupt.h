// Handles SIGINT, SIGTERM and SIGHUP: ends the program quickly, ends child processes, removes temporary folders, and
// keeps the results so far.
#pragma once

#include <functional>

namespace fk {

// For the whole program. A thread waits for these signals, since a signal handler may not do cleanup, and ends the
// program with the exit code of the signal after cleanup (core/undo_at_end.h). A second signal ends it at once.
void end_cleanly_on_signals();

// For verbs that run until Ctrl-C: the exit code is then 0.
void control_c_ends_with(int exit_code);

// While this object exists, `finish` ends the program instead: it is called by another thread, and its result is the
// exit code. It is called only while this thread is in `interruptible`, so that the two never access the same data.
// Only one object at a time.
class InterruptGuard {
 public:
  explicit InterruptGuard(std::function<int()> finish);
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;

  // Calls `work`, which may take long. Does not return after a signal.
  template <class Work>
  auto interruptible(const Work& work) {
    Open open;
    return work();
  }

 private:
  struct Open {
    Open();
    ~Open();
  };
};

bool interrupted();

}  // namespace fk
