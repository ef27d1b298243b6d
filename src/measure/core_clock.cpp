#include "measure/core_clock.h"

#include <algorithm>

#include "measure/timer.h"

namespace fk {
namespace {

// A multiplication and an addition take about four cycles: a microsecond at 3 GHz in total, about fifty times as long
// as reading the clock.
constexpr int kSteps = 750;
constexpr int kChains = 3;
// A core that was woken may run at a third of its clock for five microseconds (Neoverse-V1), which says nothing about
// the milliseconds of a round. Heat and power limits last longer than this many chains.
constexpr int kLooks = 10;

volatile uint64_t g_chain = 1;  // volatile, so that the compiler cannot compute the chain in advance or remove it

}  // namespace

double chain_ns() {
  int64_t shortest = std::numeric_limits<int64_t>::max();
  for (int i = 0; i < kChains; ++i) {
    int64_t start = now_ns();
    uint64_t x = g_chain;
    for (int step = 0; step < kSteps; ++step) x = x * 6364136223846793005u + 1442695040888963407u;
    g_chain = x;
    shortest = std::min(shortest, now_ns() - start);
  }
  return static_cast<double>(std::max<int64_t>(shortest, 1));
}

double ClockWatch::look() {
  double shortest = std::numeric_limits<double>::infinity();
  for (int i = 0; i < kLooks && (i == 0 || slow(shortest)); ++i) {
    shortest = std::min(shortest, chain_());
    best_ns_ = std::min(best_ns_, shortest);
  }
  return shortest;
}

}  // namespace fk
