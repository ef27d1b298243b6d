// Whether a core has slowed down (heat, power, a governor), told without privileges and on any processor.
//
// A chain of multiplications in which each needs the one before takes a fixed number of cycles: it fills so little of a
// core that a neighbour on the same core hardly changes it, and it touches no memory. What changes its time is the
// clock.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>

namespace fk {

inline constexpr double kSlowestClock = 0.75;  // of the nominal clock; where that is not known, of the best one seen

// How long the chain takes on this core now, in ns: the shortest of three, since an interrupt makes one of them longer
// and nothing makes it shorter. About 3 us in all.
double chain_ns();

// Looks at the clock of one core, compared with the fastest of them.
class ClockWatch {
 public:
  explicit ClockWatch(std::function<double()> chain = chain_ns) : chain_(std::move(chain)) {}

  void restart() { best_ns_ = std::numeric_limits<double>::infinity(); }
  double look();  // the chain's time, in ns
  // Whether a look since restart() was at a clock too slow. Ask when all were taken: the best may be the last.
  bool slow(double look_ns) const { return best_ns_ < kSlowestClock * look_ns; }

 private:
  std::function<double()> chain_;
  double best_ns_ = std::numeric_limits<double>::infinity();
};

}  // namespace fk
