// Times of alternating processes give the right verdict, and a drift of the machine gives none.
#include "bench/ttft/ttft_compare.h"

#include <gtest/gtest.h>

#include "core/rng.h"

namespace fk {
namespace {

// A model whose decode steps take `factor` times as long with candidates; prefill is unchanged. The machine becomes
// slower by `drift` from process to process, and every time has 0.2 % of noise.
TtftRounds simulated(double factor, double drift, size_t rounds = 8) {
  TtftRounds all;
  Stream noise(3, "ttft");
  uint64_t at = 0;
  double speed = 1;
  auto process = [&](double decode) {
    TtftTimes times;
    for (int i = 0; i < 5; ++i) {
      auto noisy = [&](double ms) { return ms * speed * (1 + 0.004 * (noise.uniform(at++) - 0.5)); };
      times.prefill_ms.push_back(noisy(20 + i));
      times.decode_ms.push_back(noisy(decode));
    }
    speed *= 1 + drift;
    return times;
  };
  for (size_t r = 0; r < rounds; ++r) {
    all.without.push_back(process(2));
    all.with.push_back(process(2 * factor));
  }
  all.without.push_back(process(2));
  return all;
}

TEST(TtftCompare, SaysWhichIsFaster) {
  TtftComparison slower = compare_rounds(simulated(1.1, 0));
  EXPECT_EQ(slower.decode.verdict, SpeedVerdict::kSlower);
  EXPECT_EQ(slower.prefill.verdict, SpeedVerdict::kSame);
  EXPECT_NEAR(slower.decode.speedup(), 1 / 1.1, 0.01);
  TtftComparison faster = compare_rounds(simulated(0.8, 0));
  EXPECT_EQ(faster.decode.verdict, SpeedVerdict::kFaster);
  EXPECT_NEAR(faster.decode.speedup(), 1.25, 0.01);
  EXPECT_LT(faster.decode.speedup_interval().low, 1.25);
  EXPECT_GT(faster.decode.speedup_interval().high, 1.24);
  EXPECT_LT(faster.decode.control_error, 0.005);
}

TEST(TtftCompare, ASteadyDriftOfTheMachineIsNoDifference) {
  TtftComparison same = compare_rounds(simulated(1, 0.01));
  EXPECT_EQ(same.decode.verdict, SpeedVerdict::kSame) << same.decode.speedup() << " " << same.decode.invalid;
  EXPECT_EQ(same.prefill.verdict, SpeedVerdict::kSame) << same.prefill.speedup();
}

TEST(TtftCompare, AModelThatDiffersFromItselfRanksNothing) {
  TtftRounds rounds = simulated(0.5, 0);
  // Every second process without candidates is slower: each pair of neighbours differs in the same direction.
  for (size_t i = 0; i < rounds.without.size(); i += 2)
    for (double& ms : rounds.without[i].decode_ms) ms *= 1.3;
  TtftComparison c = compare_rounds(rounds);
  EXPECT_EQ(c.decode.verdict, SpeedVerdict::kUnresolved);
  EXPECT_NE(c.decode.invalid.find("differs from itself"), std::string::npos) << c.decode.invalid;
  EXPECT_EQ(c.prefill.verdict, SpeedVerdict::kSame);
}

}  // namespace
}  // namespace fk
