// Ctrl-C, a polite kill and a closed terminal end the program within a moment, whatever it is doing: processes are
// ended, folders removed, and what a verb has measured is kept.
#pragma once

#include <functional>

namespace fk {

// For the whole program. A thread waits for these signals, since a handler could undo nothing, and ends the program as
// the signal would have, once everything is undone (core/undo_at_end.h). A second signal ends it at once.
void end_cleanly_on_signals();

// For verbs that go on until somebody ends them: then Ctrl-C is no failure.
void control_c_ends_with(int exit_code);

// As long as it lives, `finish` says how the program ends instead: it is called by another thread, and its result is
// the exit code. That happens only while this thread is in `interruptible`, so that both never touch the same things.
// One at a time.
class InterruptGuard {
 public:
  explicit InterruptGuard(std::function<int()> finish);
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;

  // Calls `work`, which may take long. Once there is a signal, this does not return.
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
