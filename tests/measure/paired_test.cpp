// The paired comparison on simulated noise: the interval covers the true value, inserted differences are found, and no
// others.
#include "measure/paired.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "core/rng.h"
#include "measure/cpu_time.h"

namespace fk {
namespace {

struct Noise {
  double pair_sd = 0.02;     // of a pair's log-ratio, without the tail
  double launch_sd = 0.002;  // of the offset that a launch has for all its pairs
  double drift = 0.3;        // how far both sides of a pair drift together
  double tail_share = 0.05;  // pairs in which one side is interrupted
  double tail_scale = 0.3;
};

// A run whose candidate takes `slowdown` times as long. Heavy tails affect both sides equally.
PairedSamples simulate(uint64_t run, size_t launches, size_t pairs, double slowdown, const Noise& noise = {}) {
  Stream stream(run, "simulated noise");
  uint64_t i = 0;
  PairedSamples samples;
  for (size_t l = 0; l < launches; ++l) {
    double launch = noise.launch_sd * stream.normal(i++);
    samples.emplace_back();
    for (size_t p = 0; p < pairs; ++p) {
      double together = 1000 * std::exp(noise.drift * std::sin(0.1 * static_cast<double>(p)));
      double r = launch + noise.pair_sd * stream.normal(i++);
      double hit = stream.uniform(i++) < noise.tail_share ? -noise.tail_scale * std::log(stream.uniform(i)) : 0;
      bool hits_baseline = stream.uniform(i + 1) < 0.5;
      i += 2;
      double base = together * (hits_baseline ? 1 + hit : 1),
             cand = together * slowdown * (hits_baseline ? 1 : 1 + hit);
      samples.back().push_back({base * std::exp(r / 2), cand * std::exp(-r / 2)});
    }
  }
  return samples;
}

PairedResult run(uint64_t seed, size_t launches, size_t pairs, double slowdown) {
  return compare_paired(simulate(seed, launches, pairs, slowdown), simulate(seed + 1'000'000, launches, pairs, 1),
                        {.resamples = 1000, .seed = seed});
}

TEST(Paired, IntervalCoversTheTruth) {
  int covered = 0, runs = 600;
  for (int i = 0; i < runs; ++i) {
    double truth = -std::log(1.02);
    PairedResult r = run(static_cast<uint64_t>(i), 5, 20, 1.02);
    covered += r.log_interval.low <= truth && truth <= r.log_interval.high;
  }
  EXPECT_GE(covered, runs * 97 / 100);
}

// A few launches seldom show how much launches differ: with the bootstrap alone 90 to 95 % were covered.
TEST(Paired, IntervalCoversTheTruthHoweverMuchLaunchesDiffer) {
  for (double launch_sd : {0.005, 0.01, 0.02, 0.06}) {
    for (size_t launches : {5u, 9u}) {
      int covered = 0, runs = 150;
      for (int i = 0; i < runs; ++i) {
        PairedSamples samples = simulate(70000 + static_cast<uint64_t>(i), launches, 20, 1, {.launch_sd = launch_sd});
        PairedResult r = compare_paired(samples, samples, {.resamples = 200, .seed = static_cast<uint64_t>(i)});
        covered += r.log_interval.low <= 0 && 0 <= r.log_interval.high;
      }
      EXPECT_GE(covered, runs * 96 / 100) << launches << " launches, standard deviation " << launch_sd;
    }
  }
}

TEST(Paired, IdentityIsSame) {
  int same = 0, directed = 0;
  for (uint64_t i = 0; i < 200; ++i) {
    PairedResult r = run(5000 + i, 6, 67, 1);
    same += r.verdict == SpeedVerdict::kSame;
    directed += r.direction() != 0;
    EXPECT_NE(r.verdict, SpeedVerdict::kFaster);
    EXPECT_NE(r.verdict, SpeedVerdict::kSlower);
  }
  EXPECT_GE(same, 190);
  EXPECT_LE(directed, 6);
}

TEST(Paired, ThreePercentAreFoundWithAHundredPairs) {
  int found = 0;
  for (uint64_t i = 0; i < 200; ++i) found += run(9000 + i, 5, 20, 1.03).verdict == SpeedVerdict::kSlower;
  EXPECT_GE(found, 190);
}

TEST(Paired, SlowOnePercentHasADirectionWithFourHundredPairs) {
  int found = 0;
  for (uint64_t i = 0; i < 200; ++i) found += run(12000 + i, 5, 80, 1.01).direction() == -1;
  EXPECT_GE(found, 160);
}

// A round with two samples of the baseline has two ratios. Right-skewed noise must not favour the candidate, as it does
// where the mean of two samples is compared with one.
TEST(Paired, TwoSamplesOfTheBaselineVaryLessAndFavourNobody) {
  std::vector<double> one, two;
  int covered = 0, runs = 300;
  for (int i = 0; i < runs; ++i) {
    Stream stream(static_cast<uint64_t>(i), "skewed noise");
    uint64_t n = 0;
    auto sample = [&] { return 1000 * std::exp(0.04 * -std::log(stream.uniform(n++))); };
    PairedSamples samples(6), without(6), control(6);
    for (size_t launch = 0; launch < samples.size(); ++launch)
      for (int pair = 0; pair < 20; ++pair) {
        TimePair p{sample(), sample(), Dropped::kNo, sample()};
        samples[launch].push_back(p);
        control[launch].push_back({p.baseline_ns, p.again_ns});
        without[launch].push_back({p.baseline_ns, p.candidate_ns});
      }
    PairedResult r = compare_paired(samples, control, {.resamples = 400, .seed = static_cast<uint64_t>(i)});
    covered += r.log_interval.low <= 0 && 0 <= r.log_interval.high;
    two.push_back(r.log_ratio);
    one.push_back(compare_paired(without, control, {.resamples = 1}).log_ratio);
  }
  auto rms = [](const std::vector<double>& v) {
    double sum = 0;
    for (double x : v) sum += x * x;
    return std::sqrt(sum / static_cast<double>(v.size()));
  };
  double mean = 0;
  for (double x : two) mean += x / runs;
  EXPECT_LT(std::abs(mean), 4 * rms(two) / std::sqrt(runs));
  EXPECT_LT(rms(two), 0.93 * rms(one));
  EXPECT_GE(covered, runs * 97 / 100);
}

TEST(Paired, TheFasterOneIsTheCandidate) {
  PairedResult r = run(1, 5, 40, 0.5);
  EXPECT_EQ(r.verdict, SpeedVerdict::kFaster);
  EXPECT_NEAR(r.speedup(), 2, 0.03);
  EXPECT_LT(r.speedup_interval().low, 2.01);
  EXPECT_GT(r.speedup_interval().high, 1.99);
  EXPECT_NEAR(r.baseline.median / r.candidate.median, 2, 0.2);
  EXPECT_EQ(r.baseline.count, 200u);
}

TEST(Paired, SameSeedSameInterval) {
  PairedResult a = run(3, 5, 20, 1.1), b = run(3, 5, 20, 1.1);
  EXPECT_EQ(a.log_interval.low, b.log_interval.low);
  EXPECT_EQ(a.log_interval.high, b.log_interval.high);
}

TEST(Paired, LaunchesAreTheOuterLevel) {
  // Nothing varies within a launch, so the spread comes only from the differences between launches.
  PairedSamples samples;
  for (double ratio : {1.00, 1.02, 1.04, 1.06, 1.08}) samples.emplace_back(100, TimePair{ratio * 100, 100});
  PairedResult r = compare_paired(samples, samples);
  EXPECT_LE(std::exp(r.log_interval.low), 1.021);
  EXPECT_GE(std::exp(r.log_interval.high), 1.059);
}

TEST(Paired, DroppedPairsDoNotCountAndTooManyMakeTheRunInvalid) {
  PairedSamples samples = simulate(4, 5, 20, 1), control = simulate(5, 5, 20, 1);
  samples[0][0] = {1, 1e9, Dropped::kContextSwitch};
  samples[3][7] = {1e9, 1, Dropped::kStealTime};
  PairedResult r = compare_paired(samples, control);
  EXPECT_EQ(r.pairs, 100u);
  EXPECT_EQ(r.dropped_pairs(), 2u);
  EXPECT_EQ(r.dropped[static_cast<size_t>(Dropped::kStealTime)], 1u);
  EXPECT_EQ(r.baseline.count, 98u);
  EXPECT_EQ(r.invalid, "");

  for (size_t i = 0; i < 20; ++i) samples[1][i].dropped = Dropped::kSlowClock;
  r = compare_paired(samples, control);
  EXPECT_EQ(
      r.invalid,
      "22 of 100 pairs were dropped (1 context switch, 1 steal time, 20 slow clock), and more than 20 % is too many "
      "to trust the rest.");
  EXPECT_EQ(r.baseline.count, 78u) << "an invalid run still reports";
  EXPECT_EQ(r.launches, 4u);

  for (auto& launch : samples)
    for (TimePair& pair : launch) pair.dropped = Dropped::kContextSwitch;
  EXPECT_EQ(compare_paired(samples, control).invalid,
            "None of the 100 pairs is valid (100 context switch), so there is nothing to compare.");
}

TEST(Paired, ControlSetsDeltaAndRefusesToRankOnANoisyMachine) {
  PairedSamples samples = simulate(6, 5, 40, 1.05);
  auto control = [](double ratio) { return PairedSamples(3, std::vector<TimePair>(20, {100 * ratio, 100})); };
  EXPECT_NEAR(compare_paired(samples, control(1)).delta, std::log(1.01), 1e-12);
  PairedResult r = compare_paired(samples, control(1.008));
  EXPECT_NEAR(r.control_error, std::log(1.008), 1e-12);
  EXPECT_NEAR(r.delta, 2 * std::log(1.008), 1e-12);
  EXPECT_EQ(r.invalid, "");
  EXPECT_EQ(compare_paired(samples, control(1)).verdict, SpeedVerdict::kSlower);
  EXPECT_EQ(compare_paired(samples, control(0.95)).verdict, SpeedVerdict::kUnresolved);
  EXPECT_EQ(compare_paired(samples, control(0.95)).invalid,
            "The baseline differs from itself by 5.26 %, so the machine is too noisy to rank.");
  EXPECT_EQ(compare_paired(samples, {}).invalid,
            "There are no pairs of the baseline against itself, so the noise is unknown.");
}

// Noise hides no candidate that is much slower, and shows none as faster.
TEST(Paired, OnANoisyMachineOnlySlowerByFarIsRanked) {
  PairedSamples noisy(3, std::vector<TimePair>(20, {125, 100}));
  PairedResult slower = compare_paired(simulate(8, 5, 40, 4), noisy);
  EXPECT_EQ(slower.verdict, SpeedVerdict::kSlower);
  EXPECT_EQ(slower.invalid, "");
  EXPECT_NE(compare_paired(simulate(8, 5, 40, 2), noisy).invalid, "") << "twice as slow is within four times the noise";
  EXPECT_NE(compare_paired(simulate(8, 5, 40, 0.25), noisy).invalid, "") << "a gain is never taken from a noisy run";
}

// A candidate can have its own samples dropped, with threads that compete for its core.
TEST(Paired, DroppedPairsHideNoCandidateThatIsMuchSlower) {
  PairedSamples control = simulate(5, 5, 40, 1);
  auto mostly_dropped = [](double slower) {
    PairedSamples samples = simulate(9, 5, 40, slower);
    for (auto& launch : samples)
      for (size_t i = 0; i < 30; ++i) launch[i].dropped = Dropped::kContextSwitch;
    return samples;
  };
  PairedResult slower = compare_paired(mostly_dropped(1.5), control);
  EXPECT_EQ(slower.verdict, SpeedVerdict::kSlower);
  EXPECT_EQ(slower.invalid, "");
  EXPECT_NE(compare_paired(mostly_dropped(1), control).invalid, "");
  EXPECT_NE(compare_paired(mostly_dropped(0.5), control).invalid, "") << "a gain is never taken from such a run";
  EXPECT_NE(compare_paired(mostly_dropped(1.5), {}).invalid, "") << "without a control the noise is unknown";
  EXPECT_NE(compare_paired(mostly_dropped(1.03), control).invalid, "") << "too small a difference for so few pairs";
  std::vector<TimePair> one_left(10, TimePair{100, 150, Dropped::kStealTime});
  one_left.back().dropped = Dropped::kNo;
  EXPECT_NE(compare_paired({one_left}, control).invalid, "") << "one pair says nothing";
}

TEST(Paired, SamplingStopsOnWidthAndBudgetOnly) {
  PairedResult r = run(7, 5, 20, 1.5);
  ASSERT_EQ(r.verdict, SpeedVerdict::kSlower);
  EXPECT_TRUE(needs_more(r, r.log_interval.width() / 2, 1000)) << "a verdict is no reason to stop";
  EXPECT_FALSE(needs_more(r, r.log_interval.width() / 2, 100));
  EXPECT_FALSE(needs_more(r, r.log_interval.width(), 1000));
  EXPECT_TRUE(needs_more(PairedResult{}, 0.01, 1000)) << "nothing sampled yet";
}

TEST(Paired, TimesNoClockCanGiveAreRefused) {
  EXPECT_THROW(compare_paired({{{0, 1}}}, {}), Error);
  EXPECT_THROW(compare_paired({{{1, -1}}}, {}), Error);
  EXPECT_THROW(compare_paired({{{1, std::nan("")}}}, {}), Error);
}

TEST(Paired, IsFastEnoughToRunAfterEveryScenario) {
  PairedSamples samples = simulate(8, 5, 100, 1), control = simulate(9, 5, 100, 1);
  double best = 1e9;
  for (int i = 0; i < 5; ++i) {
    CpuStopwatch watch;
    compare_paired(samples, control, {.resamples = 2000});
    best = std::min(best, watch.elapsed_s());
  }
  EXPECT_LT(best, 0.020);
}

}  // namespace
}  // namespace fk
