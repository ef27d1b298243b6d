#include "bench/kernels/exchange_cost.h"

#include <gtest/gtest.h>

#include "bench/kernels/calls_alone.h"
#include "measure/paired.h"

namespace fk {
namespace {

TEST(ExchangeCost, HidesWhatLiesBetweenTheTypicalAndTheQuickest) {
  ExchangeCost cost;
  for (double ns : {5000.0, 5200.0, 6000.0, 6100.0, 9000.0}) cost.add_empty(ns);
  for (double ns : {8000.0, 8100.0, 8200.0}) cost.add_without_kernels(ns);
  EXPECT_DOUBLE_EQ(cost.typical_ns(), 6000);
  EXPECT_DOUBLE_EQ(cost.spread_ns(), 1000);
  EXPECT_DOUBLE_EQ(cost.loop_ns(), 2100);
  EXPECT_DOUBLE_EQ(cost.could_hide_ns(), 3100);
}

TEST(ExchangeCost, SamplesAreLongEnoughToHideLittle) {
  EXPECT_EQ(calls_per_sample(1000, 0, 100e3), 100);
  int calls = calls_per_sample(20e3, 2000, 100e3);
  EXPECT_LE(2000 / (calls * 20e3), 0.005);
  EXPECT_EQ(calls_per_sample(20e6, 2000, 100e3), 1) << "one long call is a sample";
  EXPECT_LE(calls_per_sample(1000, 1e9, 100e3), 4000) << "a machine that is too busy to tell ends somewhere";
}

TEST(OutsideTime, ChargesWhatTheEventsDoNotSay) {
  OutsideTime honest, forger;
  for (int i = 0; i < 12; ++i) {
    double noise = i % 3 - 1;
    honest.add(10 * noise, 10 * noise);
    forger.add(500 + 10 * noise, -10 * noise);
  }
  EXPECT_NEAR(honest.charge_ns(), 0, 1);
  EXPECT_NEAR(forger.charge_ns(), 500, 10);
  EXPECT_LT(forger.could_hide_ns(), 20);
}

PairedSamples pairs(double baseline, double candidate) {
  PairedSamples samples(4);
  for (size_t launch = 0; launch < samples.size(); ++launch)
    for (int i = 0; i < 25; ++i) samples[launch].push_back({baseline + i % 3, candidate + i % 3});
  return samples;
}

TEST(CouldHide, AGainWithinItIsNotRanked) {
  PairedOptions options;
  PairedSamples control = pairs(10000, 10000);
  EXPECT_EQ(compare_paired(pairs(10000, 9500), control, options).verdict, SpeedVerdict::kFaster);
  options.could_hide_ns = 600;
  PairedResult within = compare_paired(pairs(10000, 9500), control, options);
  EXPECT_EQ(within.verdict, SpeedVerdict::kUnresolved);
  EXPECT_GE(within.log_interval.low, 0) << "it is not known to be slower either";
  EXPECT_EQ(compare_paired(pairs(10000, 8000), control, options).verdict, SpeedVerdict::kFaster);
  EXPECT_EQ(compare_paired(pairs(10000, 10000), control, options).verdict, SpeedVerdict::kSame);
  EXPECT_EQ(compare_paired(pairs(10000, 11000), control, options).verdict, SpeedVerdict::kSlower);
}

TEST(CallsAlone, WhoGainsByOthersIsNotRanked) {
  CallsAlone honest, batching;
  for (int i = 0; i < 12; ++i) {
    honest.add({21e3, 12e3, 21.2e3});    // all are a microsecond slower alone
    batching.add({21e3, 21e3, 21.1e3});  // alone as slow as the baseline
  }
  EXPECT_EQ(honest.objection(20e3, 11e3, 1), "");
  EXPECT_NE(batching.objection(20e3, 11e3, 1), "");
  EXPECT_NE(batching.objection(20e3, 11e3, 2), "");
  EXPECT_EQ(batching.objection(20e3, 19e3, 1), "") << "within what waking a process explains";
}

// Waking threads takes longer than a short call, so it must not excuse a candidate that is no faster alone.
TEST(CallsAlone, WakingThreadsExplainsOnlyAPartOfAGain) {
  CallsAlone pool, short_calls;
  for (int i = 0; i < 12; ++i) {
    pool.add({21e3, 16e3, 21.1e3});
    short_calls.add({7.4e3, 10.2e3, 7.4e3});
  }
  EXPECT_EQ(pool.objection(20e3, 12e3, 2), "");
  EXPECT_NE(pool.objection(20e3, 12e3, 1), "");
  EXPECT_NE(short_calls.objection(2.6e3, 1.9e3, 2), "");
}

}  // namespace
}  // namespace fk
