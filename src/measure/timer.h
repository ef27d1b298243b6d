// The monotonic clock used for all durations.
#pragma once

#include <chrono>
#include <cstdint>

namespace fk {

inline constexpr double kNsPerMs = 1e6;

inline int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

class Stopwatch {
 public:
  int64_t elapsed_ns() const { return now_ns() - start_ns_; }
  double elapsed_s() const { return static_cast<double>(elapsed_ns()) * 1e-9; }

 private:
  int64_t start_ns_ = now_ns();
};

}  // namespace fk
