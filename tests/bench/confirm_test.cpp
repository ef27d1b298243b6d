// A new best result must be confirmed by a second measurement.
#include "bench/kernels/confirm.h"

#include <gtest/gtest.h>

#include <cmath>

#include "core/json.h"

namespace fk {
namespace {

// A result as a measurement would give it, with an interval of 2 % either side.
KernelResult measured(double speedup, uint64_t seed = 1) {
  KernelResult r;
  r.verdict = Verdict::kPassed;
  r.judgement.seed = seed;
  r.seconds = 2;
  PairedResult& p = r.timing.emplace().paired;
  p.log_ratio = std::log(speedup);
  p.log_interval = {std::log(speedup * 0.98), std::log(speedup * 1.02)};
  p.delta = 0.01;
  p.verdict = p.log_interval.low > p.delta ? SpeedVerdict::kFaster : SpeedVerdict::kSame;
  p.candidate.count = 10;
  return r;
}

KernelResult failed(Verdict verdict) {
  KernelResult r;
  r.verdict = verdict;
  r.sentence = "It is wrong.";
  r.seconds = 1;
  return r;
}

KernelResult unranked(double speedup) {
  KernelResult r = measured(speedup);
  r.timing->paired.invalid = "Too noisy.";
  r.timing->paired.verdict = SpeedVerdict::kUnresolved;
  return r;
}

struct Told {
  KernelResult result;
  std::vector<KernelOptions> asked;
};

Told confirm(std::vector<KernelResult> answers, double best, bool interrupted = false) {
  Told told;
  KernelOptions options;
  options.seed = 77;
  options.other_cache_state = true;
  options.timeout_s = 10;
  auto measure = [&](const KernelOptions& o) {
    told.asked.push_back(o);
    return answers.at(told.asked.size() - 1);
  };
  told.result = measure_and_confirm(measure, options, best, [&] { return interrupted; });
  return told;
}

TEST(Confirm, WhatBeatsNothingIsMeasuredOnce) {
  for (const KernelResult& first : {measured(1.005), measured(0.8), unranked(3), failed(Verdict::kCrashed)}) {
    Told told = confirm({first}, 1);
    EXPECT_EQ(told.asked.size(), 1u);
    EXPECT_FALSE(told.result.confirmation);
    EXPECT_EQ(told.asked[0].seed, 77u);
  }
  EXPECT_EQ(confirm({measured(1.51)}, 1.5).asked.size(), 1u) << "its interval reaches the best known";
}

TEST(Confirm, ANewBestIsMeasuredAgainOnFreshSeeds) {
  Told told = confirm({measured(1.6, 77), measured(1.55, 5)}, 1.5);
  ASSERT_EQ(told.asked.size(), 2u);
  EXPECT_FALSE(told.asked[1].seed) << "drawn anew";
  EXPECT_FALSE(told.asked[1].other_cache_state);
  EXPECT_EQ(told.asked[1].timeout_s, 8) << "what the first time left of it";
  const Confirmation& c = told.result.confirmation.value();
  EXPECT_TRUE(c.confirmed) << c.sentence;
  EXPECT_EQ(c.sentence, "");
  EXPECT_EQ(c.best_before, 1.5);
  EXPECT_EQ(c.seed, 5u);
  EXPECT_NEAR(*c.speedup, 1.55, 1e-9);
  EXPECT_NEAR(told.result.timing->paired.speedup(), 1.6, 1e-9) << "the first measurement stays the result";
  EXPECT_EQ(told.result.seconds, 4);
  Json json = to_json(confirm({measured(1.6), measured(1.55, 5)}, 1.5).result.confirmation.value());
  EXPECT_EQ(json["confirmed"], true);
  EXPECT_EQ(json["seed"], 5);
  EXPECT_NEAR(json["speedup_high"].get<double>(), 1.55 * 1.02, 1e-9);
}

TEST(Confirm, LuckIsNotConfirmed) {
  for (const KernelResult& second : {measured(1.5), measured(1.0), unranked(1.6), failed(Verdict::kInvalidTask)}) {
    Told told = confirm({measured(1.6), second}, 1.5);
    ASSERT_TRUE(told.result.confirmation);
    EXPECT_FALSE(told.result.confirmation->confirmed);
    EXPECT_NE(told.result.confirmation->sentence, "");
    EXPECT_TRUE(told.result.passed());
  }
  Told told = confirm({measured(1.6)}, 1.5, true);
  EXPECT_FALSE(told.result.confirmation.value().confirmed);
  EXPECT_NE(told.result.confirmation->sentence.find("interrupted"), std::string::npos);
}

TEST(Confirm, WhatIsWrongTheSecondTimeIsWrong) {
  Told told = confirm({measured(1.6), failed(Verdict::kIncorrectNumerical)}, 1);
  EXPECT_EQ(told.result.verdict, Verdict::kIncorrectNumerical);
  EXPECT_FALSE(told.result.timing) << "and has no speed";
  EXPECT_EQ(told.result.seconds, 3);
}

}  // namespace
}  // namespace fk
