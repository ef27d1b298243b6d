// The verdict on a time and the floor of its call, with invented times.
#include "bench/kernels/floor_verdict.h"

#include <gtest/gtest.h>

namespace fk {
namespace {

using Kind = FloorVerdict::Kind;

// One call that reads 1 MB, for which this machine needs `floor_us`.
const Cost kCost{.read_bytes = 1e6, .written_bytes = 1e3};
Floor floor_of(double us) { return {.seconds = us * 1e-6, .read_s = us * 1e-6}; }

TimingResult timing(double baseline_us, double candidate_us, double control_us = 0) {
  if (control_us == 0) control_us = baseline_us;
  TimingResult r;
  for (int launch = 0; launch < 6; ++launch) {
    r.samples.emplace_back();
    r.control.emplace_back();
    for (int i = 0; i < 20; ++i) {
      double noise = 1 + 0.001 * (i % 5);
      r.samples.back().push_back({baseline_us * 1e3 * noise, candidate_us * 1e3 * noise, Dropped::kNo});
      r.control.back().push_back({baseline_us * 1e3 * noise, control_us * 1e3 * noise, Dropped::kNo});
    }
  }
  r.paired = compare_paired(r.samples, r.control);
  return r;
}

TEST(FloorVerdict, SlowerThanTheFloorIsPossible) {
  FloorVerdict v = hold_against_floor(timing(20, 11), kCost, floor_of(10));
  EXPECT_EQ(v.kind, Kind::kPossible);
  EXPECT_FALSE(v.doubtful()) << v.sentence << v.note;
}

TEST(FloorVerdict, AGainBeyondTheFloorIsNotRanked) {
  FloorVerdict v = hold_against_floor(timing(20, 9), kCost, floor_of(10));
  EXPECT_EQ(v.kind, Kind::kNotRanked);
  EXPECT_NE(v.sentence.find("less than the 10.00 us this machine needs to read 1.000 MB"), std::string::npos)
      << v.sentence;
  // Within the error of the floor a time is accepted.
  EXPECT_EQ(hold_against_floor(timing(20, 9.7), kCost, floor_of(10)).kind, Kind::kPossible);
}

TEST(FloorVerdict, HoldsAtEverySize) {
  for (double floor_us : {0.01, 0.1, 1.0, 100.0, 1e5}) {
    EXPECT_EQ(hold_against_floor(timing(2 * floor_us, 0.9 * floor_us), kCost, floor_of(floor_us)).kind,
              Kind::kNotRanked);
    EXPECT_EQ(hold_against_floor(timing(2 * floor_us, floor_us / 2), kCost, floor_of(floor_us)).kind,
              Kind::kImpossibleTime);
  }
}

TEST(FloorVerdict, FarBelowTheFloorIsImpossibleWhereMostSamplesAre) {
  EXPECT_EQ(hold_against_floor(timing(20, 6), kCost, floor_of(10)).kind, Kind::kImpossibleTime);
  TimingResult r = timing(20, 6);
  r.paired.candidate.q3 = 8e3;
  EXPECT_EQ(hold_against_floor(r, kCost, floor_of(10)).kind, Kind::kNotRanked);
}

TEST(FloorVerdict, AFloorTheBaselineIsBelowAccusesNobody) {
  for (double candidate : {9.0, 8.0, 7.0}) {
    FloorVerdict v = hold_against_floor(timing(9, candidate), kCost, floor_of(10));
    EXPECT_EQ(v.kind, Kind::kPossible) << candidate;
    EXPECT_NE(v.note.find("floor is too high"), std::string::npos) << v.note;
  }
  // The control counts as the baseline, too.
  EXPECT_EQ(hold_against_floor(timing(10, 6.5, 9), kCost, floor_of(10)).kind, Kind::kPossible);
  // A floor that is a little too high does not explain a gain this large.
  FloorVerdict v = hold_against_floor(timing(9, 3), kCost, floor_of(10));
  EXPECT_EQ(v.kind, Kind::kNotRanked);
  EXPECT_FALSE(v.note.empty());
}

// What remains of a candidate's time when the process takes longer to wake than its calls take.
TEST(FloorVerdict, ABusyMachineAccusesNobody) {
  TimingResult r = timing(12, 0.001);
  r.calls_per_sample = 10;
  r.exchange_ns = 11e3;
  EXPECT_EQ(lost_in_exchange(r), "") << "an idle machine: nothing excuses a candidate that takes no time";
  EXPECT_EQ(hold_against_floor(r, kCost, floor_of(10)).kind, Kind::kImpossibleTime);
  r.exchange_ns = 130e3;
  EXPECT_NE(lost_in_exchange(r).find("takes 130 us"), std::string::npos) << lost_in_exchange(r);
}

TEST(FloorVerdict, TheFewPairsThatWereNotDroppedProveNothing) {
  TimingResult r = timing(20, 1);
  for (auto& launch : r.samples)
    for (size_t i = 0; i < launch.size(); ++i) launch[i].dropped = i < 9 ? Dropped::kNo : Dropped::kContextSwitch;
  r.paired = compare_paired(r.samples, r.control);
  EXPECT_FALSE(hold_against_floor(r, kCost, floor_of(10)).doubtful());
}

// A candidate with impossible times must not avoid the verdict by making its run too noisy to rank.
TEST(FloorVerdict, NoiseDoesNotExcuseAnImpossibleTime) {
  TimingResult noisy = timing(20, 1, 26);
  EXPECT_NE(noisy.paired.invalid.find("differs from itself"), std::string::npos) << noisy.paired.invalid;
  EXPECT_EQ(hold_against_floor(noisy, kCost, floor_of(10)).kind, Kind::kImpossibleTime);
  TimingResult dropped = timing(20, 1);
  for (auto& launch : dropped.samples)
    for (size_t i = 0; i < launch.size(); i += 3) launch[i].dropped = Dropped::kContextSwitch;
  dropped.paired = compare_paired(dropped.samples, dropped.control);
  EXPECT_NE(dropped.paired.invalid.find("pairs were dropped"), std::string::npos) << dropped.paired.invalid;
  EXPECT_EQ(hold_against_floor(dropped, kCost, floor_of(10)).kind, Kind::kImpossibleTime);
}

TEST(FloorVerdict, WhoGainsNothingLosesNothing) {
  FloorVerdict v = hold_against_floor(timing(9.52, 9.48), kCost, floor_of(10));
  EXPECT_EQ(v.kind, Kind::kPossible) << v.sentence;
}

TEST(FloorVerdict, SaysNothingWithoutTimesOrWithoutAFloor) {
  EXPECT_FALSE(hold_against_floor(timing(9, 1), kCost, floor_of(0)).doubtful());
  EXPECT_FALSE(hold_against_floor(TimingResult{}, kCost, floor_of(10)).doubtful());
  TimingResult failed = timing(20, 1);
  failed.failure = Failure{Verdict::kCrashed, "It crashed."};
  EXPECT_FALSE(hold_against_floor(failed, kCost, floor_of(10)).doubtful());
}

}  // namespace
}  // namespace fk
