// The time of a pass is divided over its operators without counting any of it twice.
#include "bench/e2e/operator_times.h"

#include <gtest/gtest.h>

#include "bench/e2e/attribution.h"
#include "core/json.h"
#include "ops/l2/llama_mlp.h"

namespace fk {
namespace {

TEST(OperatorTimes, OwnTimesAddUpToThePass) {
  ThreadPool pool(1);
  Arena arena;
  Builder builder{BuildOptions{}};
  Op<LlamaMLP> mlp = builder.child<LlamaMLP>("mlp", {.hidden_size = 8, .intermediate_size = 16, .dtype = DType::kF32});
  std::vector<Tensor> weights;
  mlp.node().bind([&](const std::string& name) {
    return weights.emplace_back(name.find("down") == name.npos ? Shape{32, 8} : Shape{8, 16}, DType::kF32).view();
  });
  Tensor x({3, 8}, DType::kF32), out({3, 8}, DType::kF32);
  OperatorTimes times(kCpu);
  Context ctx{.pool = pool, .arena = arena, .observer = &times};
  for (int i = 0; i < 3; ++i) mlp.into(ctx, x.view(), out.view());

  EXPECT_EQ(times.steps(), 3);
  double sum = 0, shares = 0;
  int64_t linear = 0;
  for (const OperatorShare& s : times.shares()) {
    sum += s.own_ms;
    shares += s.share;
    if (s.op == "linear") linear += s.calls;
    EXPECT_GE(s.own_ms, 0);
  }
  EXPECT_EQ(linear, 6);
  EXPECT_NEAR(shares, 1, 1e-9);
  EXPECT_NEAR(sum, times.total_ms(), 1e-9);

  const std::vector<CallSpan>& step = times.last_step();
  ASSERT_EQ(step.size(), 6u);  // the block, two products with a linear in each, and the activation
  EXPECT_EQ(step[0].op, "llama_mlp");
  EXPECT_EQ(step[0].depth, 0);
  double inner = 0;
  for (size_t i = 1; i < step.size(); ++i) {
    EXPECT_EQ(step[i].depth, step[i].op == "linear" ? 2 : 1);
    EXPECT_GE(step[i].start_ms, step[i - 1].start_ms);
    EXPECT_LE(step[i].start_ms + step[i].duration_ms, step[0].duration_ms);
    if (step[i].depth == 1) inner += step[i].duration_ms;
  }
  EXPECT_LE(inner, step[0].duration_ms);
}

// A load of 100 ms: 20 ms in a block, of which 5 are its own, and 15 in its part; 40 ms in another operator.
Attribution load(double block_ms, double part_ms, double load_ms) {
  Attribution a;
  a.load_ms = load_ms;
  a.operators = {{"other", "x", 1, 40, 40, 40 / load_ms},
                 {"part", "x", 1, part_ms, part_ms, part_ms / load_ms},
                 {"block", "x", 1, block_ms - part_ms, block_ms, (block_ms - part_ms) / load_ms}};
  a.step = {{"block", "x", "model.block", 0, 0, block_ms}};
  return a;
}

TEST(Attribution, GainsAreMadeOfSharesAndSpeedUps) {
  Attribution before = load(20, 15, 100), after = load(10, 5, 90);
  EXPECT_NEAR(before.rest(), 0.4, 1e-12);
  CandidateGain part = candidate_gain("part", before, after, 4.0);
  EXPECT_NEAR(part.share, 0.15, 1e-12);
  EXPECT_NEAR(part.in_model.value(), 3, 1e-12);
  EXPECT_NEAR(expected_together({part}), 1 / 0.9, 1e-12);
  EXPECT_NEAR(candidate_gain("block", before, after, {}).in_model.value(), 2, 1e-12) << "with what it calls";
  EXPECT_FALSE(candidate_gain("absent", before, after, 2.0).in_model);
  EXPECT_EQ(expected_together({candidate_gain("absent", before, after, 2.0)}), 1);
  Attribution least = least_of({load(20, 15, 100), load(30, 12, 110)});
  EXPECT_EQ(least.load_ms, 100);
  EXPECT_EQ(least.inclusive_ms_of("part"), 12);
  EXPECT_EQ(least.inclusive_ms_of("block"), 20);
  Attribution read = attribution_from_json(to_json(before));
  EXPECT_EQ(to_json(read), to_json(before));
}

TEST(OperatorTimes, ExpectedGainFollowsAmdahl) {
  EXPECT_DOUBLE_EQ(expected_speedup(0.5, 2), 1 / 0.75);
  EXPECT_DOUBLE_EQ(expected_speedup(0, 10), 1);
  EXPECT_NEAR(expected_speedup(0.08, 1.3), 1.0188, 1e-4);  // 1.3x alone, 1.02x served
}

}  // namespace
}  // namespace fk
