#include "measure/core_clock.h"

#include <gtest/gtest.h>

#include "measure/timer.h"

namespace fk {
namespace {

TEST(CoreClock, LooksAreComparedWithTheFastestOfThem) {
  double now = 1000;
  ClockWatch watch([&] { return now; });
  EXPECT_EQ(watch.look(), 1000);
  EXPECT_FALSE(watch.slow(1000)) << "alone, it is the best";
  EXPECT_FALSE(watch.slow(1333)) << "at 75.02 % of the clock";
  EXPECT_TRUE(watch.slow(1334)) << "at 74.96 %";
  now = 700;
  watch.look();
  EXPECT_TRUE(watch.slow(1000)) << "a faster one came later";
}

TEST(CoreClock, AFewSlowMicrosecondsAreNotASlowClock) {
  int slow_chains = 0;
  ClockWatch watch([&] { return slow_chains-- > 0 ? 2055.0 : 600.0; });
  watch.look();
  slow_chains = 4;
  EXPECT_FALSE(watch.slow(watch.look())) << "a woken core";
  slow_chains = 1000;
  EXPECT_TRUE(watch.slow(watch.look())) << "a hot core";
  EXPECT_GT(slow_chains, 900) << "a look does not wait until the clock is fast again";
}

TEST(CoreClock, AnotherLaunchHasItsOwnBest) {
  double now = 500;
  ClockWatch watch([&] { return now; });
  watch.look();
  watch.restart();
  now = 1000;
  watch.look();
  EXPECT_FALSE(watch.slow(1000));
}

// This does not test how fast or how stable this machine's clock is, only that the chain is really computed and takes
// little time of a round.
TEST(CoreClock, TheChainIsComputedAndShort) {
  double shortest = 1e9;
  for (int i = 0; i < 20; ++i) shortest = std::min(shortest, chain_ns());
  EXPECT_GT(shortest, 250) << "750 multiplications that wait for each other, three cycles each: no core is at 9 GHz";
  Stopwatch watch;
  double last = chain_ns();
  EXPECT_GE(static_cast<double>(watch.elapsed_ns()), 3 * last) << "it is the shortest of three";
}

}  // namespace
}  // namespace fk
