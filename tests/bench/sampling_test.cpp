// Tests of how many launches and pairs a timing makes within its time.
#include "bench/kernels/sampling.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace fk {
namespace {

constexpr double kAimS = 2.4, kShortNs = 20e3;

TEST(LaunchTime, ALaunchEndsWhenItsShareIsOver) {
  LaunchTime time(kAimS);
  EXPECT_FALSE(time.ends_launch(6, 6, 0.25));
  EXPECT_TRUE(time.ends_launch(6, 6, 0.27)) << "later ones have up to half as many pairs again";
  EXPECT_TRUE(time.ends_launch(12, 6, 0.11));
  EXPECT_TRUE(time.ends_launch(6, 4, 100));
  EXPECT_FALSE(time.ends_launch(6, 3, 100)) << "too few for a launch";
}

TEST(LaunchTime, MoreLaunchesMustFitToo) {
  LaunchTime time(kAimS);
  EXPECT_FALSE(time.too_late(3, 12, 1.55));
  EXPECT_TRUE(time.too_late(3, 12, 1.57));
  time.allow_for_load();
  EXPECT_FALSE(time.too_late(3, 12, 4.91));
  EXPECT_TRUE(time.too_late(3, 12, 4.93));
}

// The pairs of every launch that a plan makes.
std::vector<int> planned_pairs(const TimingOptions& options, uint64_t secret) {
  LaunchPlan plan(options);
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
  EXPECT_EQ(planned_pairs(options, 0), (std::vector<int>{17, 17, 17, 17, 16, 16}));
  options.pairs = 2;
  EXPECT_EQ(planned_pairs(options, 0), (std::vector<int>{1, 1}));
}

TEST(LaunchPlan, ASecretAddsUpToHalf) {
  TimingOptions options;
  options.pairs = 96;
  for (uint64_t secret = 0; secret < 10; ++secret)
    for (int pairs : planned_pairs(options, secret)) EXPECT_EQ(pairs, 16 + static_cast<int>(secret % 9));
}

// The pairs of the launches if every timed round takes so long.
std::vector<int> pairs_within(double aim_s, double round_s, uint64_t secret = 0) {
  TimingOptions options;
  options.aim_s = aim_s;
  LaunchPlan plan(options);
  std::vector<int> pairs;
  while (plan.another_launch({}, kShortNs)) {
    plan.begin_pairs(secret);
    pairs.push_back(0);
    for (; plan.another_pair(); ++pairs.back()) plan.add_round(round_s);
  }
  return pairs;
}

// Of each launch 70 ms and five rounds are not timed.
TEST(LaunchPlan, HasThePairsThatFit) {
  EXPECT_EQ(pairs_within(kAimS, 0.001), (std::vector<int>{51, 51, 51, 51, 48, 48})) << "three times as requested";
  EXPECT_EQ(pairs_within(kAimS, 0.02), std::vector<int>(6, 10)) << "5 and 9 rounds fit, one more ends it";
  EXPECT_EQ(pairs_within(kAimS, 0.5), std::vector<int>(6, LaunchTime::kLeastPairs));
  const auto secret = pairs_within(kAimS, 0.5, 2);
  EXPECT_EQ(secret, (std::vector<int>{4, 6, 6, 6, 6, 6})) << "how many is not known to a candidate";
}

// One slow round counts once, not for the untimed ones as well.
TEST(LaunchPlan, ASlowFirstRoundDoesNotEndALaunch) {
  TimingOptions options;
  options.aim_s = kAimS;
  LaunchPlan plan(options);
  ASSERT_TRUE(plan.another_launch({}, kShortNs));
  plan.begin_pairs(0);
  int pairs = 0;
  for (; plan.another_pair(); ++pairs) plan.add_round(pairs == 0 ? 0.05 : 0.001);
  EXPECT_EQ(pairs, 51);
}

// Launches without work take no time at all: a time that is over at once leaves the least of both.
TEST(LaunchPlan, ATimeThatIsOverLeavesTheLeast) {
  TimingOptions options;
  options.aim_s = 1e-9;
  EXPECT_EQ(planned_pairs(options, 0), std::vector<int>(6, LaunchTime::kLeastPairs));
  options.budget_s = -1;  // a budget ends later launches after one pair
  options.aim_s = 0;
  EXPECT_EQ(planned_pairs(options, 0), (std::vector<int>{17, 1, 1, 1, 1, 1}));
}

TEST(LaunchTime, WithoutAnAimNothingEndsEarly) {
  LaunchTime time(0);
  EXPECT_FALSE(time.ends_launch(12, 1000, 1000));
  EXPECT_FALSE(time.too_late(3, 12, 1000));
}

}  // namespace
}  // namespace fk
