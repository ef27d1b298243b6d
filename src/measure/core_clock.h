// Detects that a core runs at a lower clock (heat, power limit, governor), without privileges and on any processor.
//
// A chain of dependent multiplications takes a fixed number of cycles: it uses so little of a core that another thread
// on the same core hardly changes it, and it touches no memory. Only the clock changes its time.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>

namespace fk {

inline constexpr double kSlowestClock = 0.75;  // share of the nominal clock; if that is unknown, of the best one seen

// Time of the chain on this core now, in ns: the shortest of three, since an interrupt makes one of them longer and
// nothing makes it shorter. About 3 us in total.
double chain_ns();

// Samples the clock of one core, and compares it with the fastest sample.
class ClockWatch {
 public:
  explicit ClockWatch(std::function<double()> chain = chain_ns) : chain_(std::move(chain)) {}

  void restart() { best_ns_ = std::numeric_limits<double>::infinity(); }
  double look();  // the chain's time, in ns; a slow chain is repeated, since it may be slow for microseconds only
  // Whether a sample since restart() had too slow a clock. Call this after all samples are taken: the fastest may be
  // the last.
  bool slow(double look_ns) const { return best_ns_ < kSlowestClock * look_ns; }

 private:
  std::function<double()> chain_;
  double best_ns_ = std::numeric_limits<double>::infinity();
};

}  // namespace fk
