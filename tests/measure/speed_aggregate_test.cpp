#include "measure/speed_aggregate.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace fk {
namespace {

ScenarioSpeed speed(std::string name, double ratio, double width = 0.01) {
  double r = std::log(ratio);
  return {.name = std::move(name), .log_ratio = r, .log_interval = {r - width / 2, r + width / 2}};
}

TEST(SpeedAggregate, GeometricMeanWithIntervalAndWorst) {
  std::vector<ScenarioSpeed> s{speed("a", 2), speed("b", 8), speed("c", 0.5)};
  SpeedAggregate all = aggregate_speed(s);
  EXPECT_DOUBLE_EQ(all.geometric_mean, 2);
  EXPECT_DOUBLE_EQ(all.credit, all.geometric_mean);
  EXPECT_EQ(all.worst_name, "c");
  EXPECT_DOUBLE_EQ(all.worst, 0.5);
  EXPECT_LT(all.interval.low, 1) << "three scenarios that far apart say little about the next";
  EXPECT_GT(all.interval.high, 4);
  EXPECT_FALSE(all.failed());
}

TEST(SpeedAggregate, EqualScenariosKeepTheirOwnNoise) {
  std::vector<ScenarioSpeed> s(4, speed("a", 1.5, 0.04));
  SpeedAggregate all = aggregate_speed(s);
  EXPECT_NEAR(std::log(all.interval.high) - std::log(all.interval.low), 0.04 / 2, 0.006);
}

// A candidate may hide the same time in every scenario.
TEST(SpeedAggregate, WhatCouldBeHiddenDoesNotAverageOut) {
  ScenarioSpeed s = speed("a", 1.08, 0.02);
  s.log_interval.low = 0;
  SpeedAggregate all = aggregate_speed(std::vector<ScenarioSpeed>(50, s));
  EXPECT_LT(all.interval.low, 1.012);
  EXPECT_GT(all.interval.high, 1.08);
  EXPECT_DOUBLE_EQ(all.geometric_mean, 1.08);
}

TEST(SpeedAggregate, AFailureEarnsNothing) {
  std::vector<ScenarioSpeed> s{speed("a", 4), {.name = "wrong", .failed = true, .log_ratio = 5, .log_interval = {}}};
  SpeedAggregate all = aggregate_speed(s);
  EXPECT_DOUBLE_EQ(all.geometric_mean, 4);
  EXPECT_DOUBLE_EQ(all.credit, 2);
  EXPECT_EQ(all.failures, 1u);
  EXPECT_EQ(all.worst, 0);
  EXPECT_EQ(all.worst_name, "wrong");
  EXPECT_TRUE(all.failed());
}

TEST(SpeedAggregate, AScenarioWeighsAsOftenAsARunHasIt) {
  std::vector<ScenarioSpeed> s{speed("a", 4), speed("b", 1), {.name = "wrong", .failed = true, .log_interval = {}}};
  s[1].weight = 3;
  s[2].weight = 4;
  SpeedAggregate all = aggregate_speed(s);
  EXPECT_DOUBLE_EQ(all.geometric_mean, std::pow(4, 0.25));
  EXPECT_DOUBLE_EQ(all.weight, 8);
  EXPECT_DOUBLE_EQ(all.passed_weight, 4);
  EXPECT_DOUBLE_EQ(all.credit, all.geometric_mean / 2);
  // The same as that many equal scenarios, except for the interval, because they were measured only once.
  std::vector<ScenarioSpeed> apart{speed("a", 4), speed("b", 1), speed("b", 1), speed("b", 1)};
  EXPECT_DOUBLE_EQ(aggregate_speed(apart).geometric_mean, all.geometric_mean);
  EXPECT_LE(all.interval.low, 1.01);
  EXPECT_GE(all.interval.high, 3.9) << "two scenarios say little about a third";
}

// A time from a machine that is too noisy is printed but not ranked.
TEST(SpeedAggregate, WhatDoesNotRankIsNeitherCreditNorBlame) {
  std::vector<ScenarioSpeed> s{
      speed("a", 4), speed("noisy", 100), {.name = "wrong", .failed = true, .log_interval = {}}};
  s[1].unranked = true;
  SpeedAggregate all = aggregate_speed(s);
  EXPECT_DOUBLE_EQ(all.geometric_mean, 4);
  EXPECT_DOUBLE_EQ(all.credit, 2);
  EXPECT_EQ(all.unranked, 1u);
  EXPECT_EQ(all.failures, 1u);
  EXPECT_DOUBLE_EQ(all.passed_weight, 2);
  s = {speed("noisy", 0.5)};
  s[0].unranked = true;
  all = aggregate_speed(s);
  EXPECT_EQ(all.geometric_mean, 0);
  EXPECT_EQ(all.worst_name, "");
  EXPECT_FALSE(all.failed());
}

TEST(SpeedAggregate, NothingMeasuredIsAFailure) {
  EXPECT_TRUE(aggregate_speed({}).failed());
  EXPECT_EQ(aggregate_speed({}).credit, 0);
  std::vector<ScenarioSpeed> s{{.name = "crashed", .failed = true, .log_ratio = 0, .log_interval = {}}};
  EXPECT_EQ(aggregate_speed(s).credit, 0);
}

}  // namespace
}  // namespace fk
