// Which histories count as a regression, and between which runs it is reported.
#include "web/regressions.h"

#include <gtest/gtest.h>

#include <fmt/format.h>

namespace fk {
namespace {

// Runs are numbered by time; lists are newest first, as from the store.
SeriesPoint timed(int run, double speedup, double spread = 0.01, double delta = 0.02) {
  SeriesPoint p;
  p.run_id = fmt::format("run{}", run);
  p.commit = fmt::format("commit{}", run);
  p.verdict = "PASSED";
  p.passed = true;
  p.speedup = speedup;
  p.low = speedup * (1 - spread);
  p.high = speedup * (1 + spread);
  p.delta = delta;
  return p;
}

SeriesPoint failed(int run, const char* verdict = "INCORRECT_NUMERICAL") {
  SeriesPoint p;
  p.run_id = fmt::format("run{}", run);
  p.verdict = verdict;
  p.skipped = std::string(verdict) == "REFUSED";
  return p;
}

std::string told(const std::vector<SeriesPoint>& newest_first) {
  auto r = find_regression(newest_first);
  if (!r) return "none";
  return fmt::format("{} {}..{} against {}", r->incorrect ? "wrong" : "slow", r->last_good.run_id, r->first_bad.run_id,
                     r->before.run_id);
}

TEST(Regressions, AreFoundWhereIntervalsDoNotMeet) {
  EXPECT_EQ(told({timed(2, 1.2), timed(1, 1.5)}), "slow run1..run2 against run1");
  EXPECT_EQ(told({timed(2, 1.5), timed(1, 1.2)}), "none");   // faster
  EXPECT_EQ(told({timed(2, 1.48), timed(1, 1.5)}), "none");  // the intervals meet
  EXPECT_EQ(told({timed(2, 1.2, 0.3), timed(1, 1.5)}), "none");
}

TEST(Regressions, AreNotFoundWithinWhatARunCallsNoise) {
  EXPECT_EQ(told({timed(2, 1.45, 0.001, 0.05), timed(1, 1.5, 0.001, 0.02)}), "none");
  EXPECT_EQ(told({timed(2, 1.45, 0.001, 0.02), timed(1, 1.5, 0.001, 0.02)}), "slow run1..run2 against run1");
}

TEST(Regressions, StayWhenTheyAreOld) {
  // The slowdown was three runs ago; the range is where it happened, not where it was last seen.
  EXPECT_EQ(told({timed(5, 1.2), timed(4, 1.21), timed(3, 1.2), timed(2, 1.5), timed(1, 1.49)}),
            "slow run2..run3 against run2");
  // A recovered speed is not a regression.
  EXPECT_EQ(told({timed(3, 1.5), timed(2, 1.2), timed(1, 1.5)}), "none");
}

TEST(Regressions, PassOverRunsThatSayNothing) {
  SeriesPoint noisy = timed(3, 1.0);
  noisy.speedup = noisy.low = noisy.high = std::nullopt;
  EXPECT_EQ(told({timed(4, 1.2), noisy, failed(2, "REFUSED"), timed(1, 1.5)}), "slow run1..run4 against run1");
  EXPECT_EQ(told({noisy, timed(1, 1.5)}), "none");
}

TEST(Regressions, WrongComesBeforeSlow) {
  EXPECT_EQ(told({failed(3), failed(2), timed(1, 1.5)}), "wrong run1..run2 against run1");
  EXPECT_EQ(told({failed(2, "REFUSED"), timed(1, 1.5)}), "none");  // a refusal is no verdict on the candidate
  EXPECT_EQ(told({failed(2), failed(1)}), "none");                 // it never worked
}

// A slower result of another candidate or on a busy machine is reported, but not as an alarm.
TEST(Regressions, OfUnlikeRunsAreNoAlarms) {
  auto of = [](SeriesPoint p, const char* candidate, bool busy = false) {
    p.candidate = candidate;
    p.busy = busy;
    return p;
  };
  auto unlike = [](const std::vector<SeriesPoint>& newest_first) {
    auto r = find_regression(newest_first);
    return r ? r->unlike.empty() ? "alarm" : r->unlike : "none";
  };
  EXPECT_EQ(unlike({of(timed(2, 1.2), "a"), of(timed(1, 1.5), "a")}), "alarm");
  EXPECT_EQ(unlike({of(timed(2, 1.2), "b"), of(timed(1, 1.5), "a")}), "another candidate");
  EXPECT_EQ(unlike({of(timed(2, 1.2), "a", true), of(timed(1, 1.5), "a")}), "another load");
  EXPECT_EQ(unlike({of(failed(2), "b", true), of(timed(1, 1.5), "a")}), "another candidate and another load");
  // Another candidate in between does not hide an alarm.
  EXPECT_EQ(unlike({of(timed(3, 1.2), "a"), of(timed(2, 1.9), "b"), of(timed(1, 1.5), "a")}), "alarm");
  EXPECT_EQ(told({of(timed(3, 1.2), "a"), of(timed(2, 1.9), "b"), of(timed(1, 1.5), "a")}),
            "slow run1..run3 against run1");
}

TEST(Regressions, NeedSomethingToCompareWith) {
  EXPECT_EQ(told({}), "none");
  EXPECT_EQ(told({timed(1, 0.5)}), "none");
  EXPECT_EQ(told({failed(1, "REFUSED")}), "none");
}

}  // namespace
}  // namespace fk
