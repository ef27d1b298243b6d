// plan_arena: arrays that live at the same time never overlap, and the block is hardly larger than the lower bound.
#include "compiler/plan/arena_plan.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "core/rng.h"

namespace fk {
namespace {

size_t whole_lines(size_t bytes) { return (bytes + kPlanAlignment - 1) / kPlanAlignment * kPlanAlignment; }

void expect_sound(const std::vector<ArenaRequest>& requests, const ArenaPlan& plan) {
  ASSERT_EQ(plan.offsets.size(), requests.size());
  int end = 0;
  for (size_t i = 0; i < requests.size(); ++i) {
    end = std::max(end, requests[i].last);
    EXPECT_EQ(plan.offsets[i] % kPlanAlignment, 0u);
    EXPECT_LE(plan.offsets[i] + requests[i].bytes, plan.bytes);
    for (size_t j = 0; j < i; ++j) {
      bool at_once = requests[i].first <= requests[j].last && requests[j].first <= requests[i].last;
      bool apart = plan.offsets[i] + requests[i].bytes <= plan.offsets[j] ||
                   plan.offsets[j] + requests[j].bytes <= plan.offsets[i];
      EXPECT_TRUE(apart || !at_once) << i << " and " << j;
    }
  }
  // The lower bound, by looking at every step.
  size_t most = 0;
  for (int t = 0; t <= end; ++t) {
    size_t sum = 0;
    for (const ArenaRequest& r : requests)
      if (r.first <= t && t <= r.last) sum += whole_lines(r.bytes);
    most = std::max(most, sum);
  }
  EXPECT_EQ(plan.lower_bound, most);
  EXPECT_GE(plan.bytes, most);
}

TEST(ArenaPlan, ReusesMemoryOfWhatIsDead) {
  const std::vector<ArenaRequest> chain = {{640, 0, 1}, {640, 1, 2}, {640, 2, 3}, {640, 3, 4}};
  ArenaPlan plan = plan_arena(chain);
  expect_sound(chain, plan);
  EXPECT_EQ(plan.bytes, 1280u);
}

TEST(ArenaPlan, TakesNothingAndEmptyArrays) {
  EXPECT_EQ(plan_arena({}).bytes, 0u);
  const std::vector<ArenaRequest> empty = {{0, 0, 3}, {64, 1, 2}, {0, 2, 2}};
  ArenaPlan plan = plan_arena(empty);
  expect_sound(empty, plan);
  EXPECT_EQ(plan.bytes, 64u);
}

// One large array among small ones, in an order in which taking the first gap that fits wastes most of it.
TEST(ArenaPlan, SmallArraysDoNotSplitTheMemoryOfLargeOnes) {
  const std::vector<ArenaRequest> requests = {{64, 0, 2}, {6400, 0, 1}, {64, 1, 4}, {6400, 2, 3}, {6464, 4, 5}};
  ArenaPlan plan = plan_arena(requests);
  expect_sound(requests, plan);
  EXPECT_EQ(plan.bytes, plan.lower_bound);
}

TEST(ArenaPlan, RandomLifetimesNeverOverlap) {
  double worst = 1;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    Stream stream(seed, "memory plan");
    uint64_t at = 0;
    std::vector<ArenaRequest> requests;
    const uint64_t count = 1 + stream.below(at++, 60);
    for (uint64_t i = 0; i < count; ++i) {
      const int first = static_cast<int>(stream.below(at++, 40));
      requests.push_back({stream.below(at++, 5) == 0 ? stream.below(at++, 100000) : stream.below(at++, 3000), first,
                          first + static_cast<int>(stream.below(at++, 8))});
    }
    ArenaPlan plan = plan_arena(requests);
    expect_sound(requests, plan);
    worst = std::max(worst, static_cast<double>(plan.bytes) / static_cast<double>(plan.lower_bound));
  }
  EXPECT_LT(worst, 1.5);  // random lifetimes are harder than those of models
}

}  // namespace
}  // namespace fk
