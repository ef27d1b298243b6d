// Tests of how many launches and pairs a timing makes within its time.
#include "bench/kernels/sampling.h"

#include <gtest/gtest.h>

#include <climits>
#include <cstdint>
#include <vector>

namespace fk {
namespace {

constexpr double kAimS = 2.4, kShortNs = 20e3, kLongNs = 160e3;

// The launches that would be made if each took so long, without more for wide intervals.
int launches_made(double launch_s, int planned = 12) {
  LaunchTime time(kAimS);
  int made = 0;
  while (made < time.affordable(planned, made, launch_s * made)) ++made;
  return made;
}

TEST(LaunchTime, MakesAllLaunchesThatFit) {
  EXPECT_EQ(launches_made(0.1), 12);
  EXPECT_EQ(launches_made(0.19), 12);
  EXPECT_EQ(launches_made(0.1, 3), 3);
}

// The speeds of memories cancel in six launches, so the launches are six or all.
TEST(LaunchTime, SlowLaunchesAreSix) {
  EXPECT_EQ(launches_made(0.21), 6);
  EXPECT_EQ(launches_made(50), 6);
  EXPECT_EQ(launches_made(50, 5), 5);
}

TEST(LaunchTime, ALaunchEndsWhenItsShareIsOver) {
  LaunchTime time(kAimS);
  EXPECT_FALSE(time.ends_launch(12, 6, 0.14));
  EXPECT_TRUE(time.ends_launch(12, 6, 0.16));
  EXPECT_FALSE(time.ends_launch(12, 5, 0.16)) << "too few for many launches";
}

// Fewer pairs than many launches need: then there are six launches, of four pairs at least.
TEST(LaunchTime, AVerySlowLaunchHasFourPairs) {
  LaunchTime time(kAimS);
  EXPECT_FALSE(time.ends_launch(12, 5, 0.29));
  EXPECT_TRUE(time.ends_launch(12, 5, 0.31));
  EXPECT_TRUE(time.ends_launch(12, 4, 0.31));
  EXPECT_FALSE(time.ends_launch(12, 3, 100));
}

TEST(LaunchTime, MoreLaunchesMustFitToo) {
  LaunchTime time(kAimS);
  EXPECT_FALSE(time.too_late(3, 12, 1.9, kShortNs));
  EXPECT_TRUE(time.too_late(3, 12, 1.93, kShortNs));
  EXPECT_FALSE(time.too_late(3, 12, 2.39, kLongNs));
  EXPECT_TRUE(time.too_late(3, 12, 2.41, kLongNs));
  time.allow_for_load();
  EXPECT_FALSE(time.too_late(3, 12, 5.75, kShortNs));
  EXPECT_TRUE(time.too_late(3, 12, 5.77, kShortNs));
}

TEST(JudgedAgain, AtLeastAnEighthIsDrawn) {
  constexpr uint64_t kLeast = 0, kMost = UINT64_MAX, kEighth = UINT64_MAX / 8;
  JudgedAgain again;
  EXPECT_TRUE(again.drawn(kMost)) << "the first one always";
  again.took(0.005);
  EXPECT_TRUE(again.drawn(kMost)) << "quick ones too";
  again.took(0.02);
  EXPECT_TRUE(again.drawn(kMost / 2 - kEighth));
  EXPECT_FALSE(again.drawn(kMost / 2 + kEighth));
  again.took(10);
  EXPECT_TRUE(again.drawn(kLeast));
  EXPECT_TRUE(again.drawn(kEighth - kEighth / 100));
  EXPECT_FALSE(again.drawn(kEighth + kEighth / 100));
}

// The pairs of every launch that a plan makes.
std::vector<int> planned_pairs(const TimingOptions& options, int most_launches, uint64_t secret) {
  LaunchPlan plan(options, most_launches);
  std::vector<int> pairs;
  while (plan.another_launch({}, kShortNs)) {
    plan.begin_pairs(secret);
    pairs.push_back(0);
    while (plan.another_pair()) ++pairs.back();
  }
  return pairs;
}

TEST(LaunchPlan, SharesTheRequestedPairs) {
  TimingOptions options;
  options.pairs = 100;
  const auto pairs = planned_pairs(options, INT_MAX, 0);
  EXPECT_EQ(pairs, (std::vector<int>{9, 9, 9, 9, 8, 8, 8, 8, 8, 8, 8, 8}));
  EXPECT_EQ(planned_pairs(options, 6, 0).size(), 6U);
  options.pairs = 2;
  EXPECT_EQ(planned_pairs(options, INT_MAX, 0), (std::vector<int>{1, 1}));
}

TEST(LaunchPlan, ASecretAddsUpToHalf) {
  TimingOptions options;
  options.pairs = 96;
  for (uint64_t secret = 0; secret < 10; ++secret)
    for (int pairs : planned_pairs(options, INT_MAX, secret)) EXPECT_EQ(pairs, 8 + static_cast<int>(secret % 5));
}

// Launches without work take no time at all: a time that is over at once leaves the least of both.
TEST(LaunchPlan, ATimeThatIsOverLeavesTheLeast) {
  TimingOptions options;
  options.aim_s = 1e-9;
  EXPECT_EQ(planned_pairs(options, INT_MAX, 0), std::vector<int>(6, LaunchTime::kLeastPairs));
  options.budget_s = -1;  // a budget ends later launches after one pair
  options.aim_s = 0;
  EXPECT_EQ(planned_pairs(options, INT_MAX, 0), (std::vector<int>{9, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}));
}

TEST(LaunchTime, WithoutAnAimNothingEndsEarly) {
  LaunchTime time(0);
  EXPECT_FALSE(time.ends_launch(12, 1000, 1000));
  EXPECT_FALSE(time.too_late(3, 12, 1000, kShortNs));
  EXPECT_EQ(time.affordable(12, 6, 1000), 12);
}

}  // namespace
}  // namespace fk
