// Ctrl-C as a wish to stop at the next good place, for verbs that keep what they measured.
#pragma once

#include <signal.h>

#include <array>

namespace fk {

// As long as it lives, Ctrl-C, and a polite kill or a closed terminal likewise, only sets interrupted(); a second one
// ends the program. One at a time.
class InterruptGuard {
 public:
  InterruptGuard();
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;

 private:
  static constexpr std::array kSignals = {SIGINT, SIGTERM, SIGHUP};
  std::array<struct sigaction, kSignals.size()> before_{};
};

bool interrupted();

}  // namespace fk
