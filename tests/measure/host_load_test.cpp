// Other work on this machine is detected, and reported only if it disturbs measurements.
#include "measure/host_load.h"

#include <gtest/gtest.h>

namespace fk {
namespace {

constexpr const char* kBefore =
    "cpu  400 0 0 1600 0 0 0 0 0 0\ncpu0 100 0 0 400 0 0 0 0 0 0\ncpu1 100 0 0 400 0 0 0 0 0 0\nintr 5\n";
// cpu0 was idle for 100 ticks; cpu1 worked for 50, had 25 ticks of steal time and waited for a disk for 25.
constexpr const char* kAfter =
    "cpu  500 0 0 1700 0 0 0 0 0 0\ncpu0 100 0 0 500 0 0 0 0 0 0\ncpu1 150 0 0 400 25 0 0 25 0 0\nintr 9\n";

TEST(HostLoad, CountsTheCoresThatWork) {
  EXPECT_DOUBLE_EQ(busy_cores_between(kBefore, kAfter, {0, 1}), 0.75);
  EXPECT_DOUBLE_EQ(busy_cores_between(kBefore, kAfter, {0}), 0);
  EXPECT_DOUBLE_EQ(busy_cores_between(kBefore, kAfter, {1, 7}), 0.75);
  EXPECT_DOUBLE_EQ(busy_cores_between("", kAfter, {0, 1}), 0);
  EXPECT_DOUBLE_EQ(busy_cores_between("no such file", "", {0}), 0);
  EXPECT_DOUBLE_EQ(busy_cores_between(kAfter, kAfter, {0, 1}), 0) << "no time passed";
}

TEST(HostLoad, WarnsWhereTooFewCoresAreLeft) {
  auto warns = [](double busy, int cores, int threads) { return !load_warning({busy, cores, 1.5}, threads).empty(); };
  EXPECT_FALSE(warns(0.1, 2, 2)) << "something always wakes now and then";
  EXPECT_TRUE(warns(0.6, 2, 2));
  EXPECT_FALSE(warns(0.6, 2, 1)) << "one is free";
  EXPECT_FALSE(warns(3, 64, 8));
  EXPECT_TRUE(warns(60, 64, 8));
  EXPECT_FALSE(warns(0, 0, 1)) << "nothing is known";
  std::string sentence = load_warning({1.75, 2, 3.5}, 2);
  EXPECT_NE(sentence.find("1.8 of 2 cores"), std::string::npos) << sentence;
  EXPECT_NE(sentence.find("load average 3.5"), std::string::npos) << sentence;
  EXPECT_NE(sentence.find("stop them"), std::string::npos) << sentence;
}

TEST(HostLoad, OfThisMachineIsPlausible) {
  HostLoad load = host_load(0.05);
  EXPECT_GE(load.cores, 1);
  EXPECT_GE(load.busy_cores, 0);
  EXPECT_LE(load.busy_cores, load.cores);
}

}  // namespace
}  // namespace fk
