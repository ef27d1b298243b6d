// spin_until: waits for another core for a short time without giving up this one.
#pragma once

#include <chrono>
#include <optional>

namespace fk {

// Covers the serial parts of a decode step; in longer pauses the core should sleep. It is a time, because one turn
// takes from 1 ns (aarch64) to 40 ns (x86-64).
inline constexpr std::chrono::microseconds kSpinTime(50);

// Spins until ready() or until the time limit; returns whether it was ready.
template <class Ready>
bool spin_until(Ready ready) {
  std::optional<std::chrono::steady_clock::time_point> give_up;
  for (;;) {
    for (int i = 0; i < 32; ++i) {
      if (ready()) return true;
#if defined(__x86_64__)
      __builtin_ia32_pause();
#elif defined(__aarch64__)
      asm volatile("yield");
#endif
    }
    auto now = std::chrono::steady_clock::now();
    if (!give_up) give_up = now + kSpinTime;
    if (now >= *give_up) return false;
  }
}

}  // namespace fk
