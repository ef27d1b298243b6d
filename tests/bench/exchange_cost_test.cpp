#include "bench/kernels/exchange_cost.h"

#include <gtest/gtest.h>

#include "bench/kernels/calls_alone.h"
#include "core/memory.h"
#include "measure/paired.h"

namespace fk {
namespace {

TEST(ExchangeCost, HidesWhatLiesBetweenTheTypicalAndTheQuickest) {
  ExchangeCost cost;
  for (double ns : {5000.0, 5200.0, 6000.0, 6100.0, 9000.0}) cost.add_empty({ns});
  for (double ns : {8000.0, 8100.0, 8200.0}) cost.add_loop({ns - 2100}, {ns});
  EXPECT_DOUBLE_EQ(cost.typical_ns(), 6000);
  EXPECT_DOUBLE_EQ(cost.spread_ns(), 1000);
  EXPECT_DOUBLE_EQ(cost.loop_ns(), 2100);
  EXPECT_DOUBLE_EQ(cost.could_hide_ns(), 3100);
}

// A process that is woken twice in a row wakes faster. If those samples counted, the spread would be 6 us, and the
// loop, which is measured there, would seem to take no time.
TEST(ExchangeCost, SamplesBeforeTheRoundsCountForTheLoopOnly) {
  ExchangeCost cost;
  for (double ns : {14000.0, 14100.0, 14200.0}) cost.add_loop({ns}, {ns + 500});
  EXPECT_DOUBLE_EQ(cost.typical_ns(), 14100) << "nothing else is known yet";
  for (double ns : {19000.0, 20000.0, 21000.0}) cost.add_empty({ns});
  EXPECT_DOUBLE_EQ(cost.typical_ns(), 20000);
  EXPECT_DOUBLE_EQ(cost.spread_ns(), 1000);
  EXPECT_DOUBLE_EQ(cost.loop_ns(), 500);
}

// With other programs on both cores most samples are interrupted for milliseconds. They say nothing about the others.
TEST(ExchangeCost, DisturbedSamplesCountOnlyWithoutEnoughOthers) {
  ExchangeCost cost;
  for (double ns : {4e6, 3e6, 5e6, 4e6}) cost.add_empty({ns, true});
  for (double ns : {20000.0, 21000.0}) cost.add_empty({ns});
  EXPECT_DOUBLE_EQ(cost.typical_ns(), 3e6 / 2 + 4e6 / 2) << "two are not enough to know the spread";
  cost.add_empty({19500});
  EXPECT_DOUBLE_EQ(cost.typical_ns(), 20000);
  EXPECT_DOUBLE_EQ(cost.spread_ns(), 500);
  for (int i = 0; i < 3; ++i) cost.add_loop({20000}, {20700});
  for (int i = 0; i < 9; ++i) cost.add_loop({20000}, {3e6, true});
  EXPECT_DOUBLE_EQ(cost.loop_ns(), 700);
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

CallsAlone alone(double baseline, double candidate, double noise = 50) {
  CallsAlone calls;
  for (int launch = 0; launch < 12; ++launch) {
    calls.begin_launch();
    for (int i = 0; i < 24; ++i)
      calls.add({baseline + noise * (i % 3 - 1), candidate + noise * (i % 5 - 2), baseline + noise * (i % 4 - 1.5)});
  }
  return calls;
}

PairedResult limited(const CallsAlone& calls, double baseline, double candidate, PairedOptions* used = nullptr) {
  PairedSamples samples = pairs(baseline, candidate), control = pairs(baseline, baseline);
  PairedOptions options;
  PairedResult result = compare_paired(samples, control, options);
  calls.limit(result, samples, control, options);
  if (used != nullptr) *used = options;
  return result;
}

TEST(CallsAlone, AGainCountsAsFarAsItExistsAlone) {
  // All are slower alone.
  EXPECT_EQ(limited(alone(21e3, 12e3), 20e3, 11e3).verdict, SpeedVerdict::kFaster);
  // Half of the gain: it is ranked, but no higher than that.
  PairedResult half = limited(alone(21e3, 16e3), 20e3, 10e3);
  EXPECT_EQ(half.verdict, SpeedVerdict::kFaster);
  EXPECT_LT(half.speedup_interval().low, 20.0 / 15);
  EXPECT_GT(half.speedup_interval().low, 1.2);
  EXPECT_NEAR(half.speedup(), 20.0 / 15, 0.02) << "not the factor of two that the batch has";
  EXPECT_NEAR(half.candidate.median, 10e3, 10) << "as measured";
  // More than in the batch: the error of these times does not matter.
  EXPECT_EQ(limited(alone(21e3, 19.5e3, 6e3), 20e3, 19.3e3).verdict, SpeedVerdict::kFaster);
  // Nothing of it.
  PairedResult none = limited(alone(21e3, 21e3), 20e3, 11e3);
  EXPECT_EQ(none.verdict, SpeedVerdict::kUnresolved);
  EXPECT_NE(none.invalid.find("only in a batch"), std::string::npos) << none.invalid;
  // Slower alone: the gain does not count, but the speed-up shown is not a slowdown that a batch does not have.
  PairedResult less = limited(alone(21e3, 31e3), 20e3, 11e3);
  EXPECT_EQ(less.verdict, SpeedVerdict::kUnresolved);
  EXPECT_NEAR(less.speedup(), 1.0, 0.01);
}

// A short call may lose less than a microsecond alone and gain as much in a batch.
TEST(CallsAlone, ShortCallsThatGainOnlyInABatchAreNotRanked) {
  EXPECT_EQ(limited(alone(7.5e3, 7.6e3), 2.6e3, 1.8e3).verdict, SpeedVerdict::kUnresolved);
  EXPECT_EQ(limited(alone(7.5e3, 6.7e3), 2.6e3, 1.8e3).verdict, SpeedVerdict::kFaster);
}

TEST(CallsAlone, NoiseIsNamedWhereItHidesTheAnswer) {
  PairedResult noisy = limited(alone(7.5e3, 6.7e3, 20e3), 2.6e3, 1.8e3);
  EXPECT_EQ(noisy.verdict, SpeedVerdict::kUnresolved);
  EXPECT_NE(noisy.invalid.find("is not known"), std::string::npos) << noisy.invalid;
}

TEST(CallsAlone, MoreAreMadeWhereAGainNeedsThem) {
  EXPECT_TRUE(alone(7.5e3, 7.4e3, 2e3).wants_more(pairs(2.6e3, 2.5e3)));
  EXPECT_FALSE(alone(7.5e3, 7.4e3, 10).wants_more(pairs(2.6e3, 2.5e3))) << "they are known well";
  EXPECT_FALSE(alone(7.5e3, 7.5e3, 2e3).wants_more(pairs(2.6e3, 2.6e3))) << "there is no gain";
  EXPECT_FALSE(alone(7.5e3, 7.4e3, 2e3).wants_more({})) << "nothing is known";
}

TEST(CallsAlone, OthersAreLeftAsTheyAre) {
  EXPECT_EQ(limited(alone(21e3, 31e3), 20e3, 20e3).verdict, SpeedVerdict::kSame);
  EXPECT_EQ(limited(CallsAlone(), 20e3, 11e3).verdict, SpeedVerdict::kFaster);
}

TEST(CallsAlone, OnAGpuWhoGainsByOthersIsNotRanked) {
  EXPECT_EQ(alone(21e3, 12e3).objection_on_gpu(20e3, 11e3), "");
  EXPECT_NE(alone(21e3, 21e3).objection_on_gpu(20e3, 11e3), "");
  EXPECT_EQ(alone(21e3, 21e3).objection_on_gpu(20e3, 19e3), "") << "within what launching one call explains";
}

TEST(LateWrites, AreFoundWhereverTheyAre) {
  Tensor large(Shape{1000}, DType::kF32), small(Shape{1}, DType::kI64);
  std::vector<View> written = {large.view(), small.view()};
  LateWrites late(written, 1);
  late.look();
  EXPECT_FALSE(late.found());
  *small.view().ptr<int64_t>() += 1;
  EXPECT_TRUE(late.found());
  late.look();
  EXPECT_FALSE(late.found());
  for (int64_t i = 500; i < 1000; ++i) large.view().ptr<float>()[i] += 1;
  EXPECT_TRUE(late.found());
}

}  // namespace
}  // namespace fk
