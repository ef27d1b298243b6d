// A plan that makes a whole step slower is noticed, whatever its kernels are alone, and left to the tree.
#include "compiler/plan/step_trial.h"

#include <gtest/gtest.h>

#include <cstring>

#include "measure/timer.h"
#include "tests/compiler/region_by_calls.h"
#include "tests/engine/generate.h"
#include "tests/sanitizer.h"

namespace fk {
namespace {

// Gives zeros, and takes its time.
class SlowKernel final : public RegionKernel {
 public:
  explicit SlowKernel(int64_t wait_ns) : wait_ns_(wait_ns) {}
  std::string_view refuse(std::span<const View>, std::span<const View>) const override { return {}; }
  void run(Context&, std::span<const View>, std::span<const View> outputs) override {
    for (const View& out : outputs) std::memset(out.data(), 0, out.size_bytes());
    for (const int64_t start = now_ns(); now_ns() - start < wait_ns_;) continue;
  }

 private:
  int64_t wait_ns_;
};

// In the place of one activation, while decoding.
FindRegions planted(int64_t wait_ns) {
  return [=](GraphPhase phase, const GraphBody& body) {
    std::vector<PlannedRegion> list;
    for (size_t n = 0; n < body.nodes.size() && phase == GraphPhase::kDecode; ++n)
      if (body.nodes[n].op == "silu_and_mul" && list.empty())
        list.push_back({region_of(body, {n}), std::make_shared<SlowKernel>(wait_ns)});
    return list;
  };
}

TEST(StepTrial, APlanThatIsSlowerIsLeftToTheTree) {
  FK_NOT_UNDER_A_SANITIZER(kNeedsFullSpeed);
  ThreadPool pool(1);
  Model model = load_model(resolve_model("tiny-llama"), {.format = LoadFormat::kDummy, .seed = 3}, pool);
  CompiledModel compiled(model, planted(1'000'000));  // a step of the tree takes a tenth of that
  TrialResult slow = try_step(compiled, model, pool, GraphPhase::kDecode, {.sizes = {{1, 1}, {4, 1}}, .seconds = 0.5});
  ASSERT_EQ(slow.timings.size(), 2u);
  EXPECT_TRUE(keeps_tree(slow)) << step_text(slow);
  EXPECT_EQ(slow.timings[1].rows, 4);
  EXPECT_GT(slow.timings[0].kernel_ns, slow.timings[0].calls_ns + 0.9e6);
  EXPECT_NE(step_text(slow).find("ms by the tree"), std::string::npos);
  EXPECT_FALSE(compiled.left_to_tree(GraphPhase::kDecode)) << "a trial decides nothing";
  // The same calls as the tree: not slower.
  for (GraphPhase phase : {GraphPhase::kPrefill, GraphPhase::kMixed}) {
    TrialResult same = try_step(compiled, model, pool, phase, {.sizes = {{2, 9}}, .seconds = 0.3});
    EXPECT_NE(same.timings[0].verdict, "SLOWER") << step_text(same);
    EXPECT_EQ(same.timings[0].rows, phase == GraphPhase::kMixed ? 11 : 18);
  }

  // Left to the tree, the planted kernel does not run.
  compiled.leave_to_tree(GraphPhase::kDecode, true);
  compiled.count_from_zero();
  ModelExecutor executor(model, pool, {.max_context = 64});
  RunningSequence sequence = executor.start();
  executor.prefill(sequence, std::vector<int64_t>{1, 2, 3});
  EXPECT_EQ(compiled.calls_by_tree(), 0);
  const int64_t token = 4;
  const NewTokens next{&sequence, {&token, 1}};
  executor.forward({&next, 1});
  EXPECT_EQ(compiled.calls_by_tree(), 1);
}

// A plan runs only where it is the tree's equal or better.
TEST(StepTrial, WhatIsNotKnownToBeAsFastIsLeftToTheTree) {
  auto steps = [](const char* verdict, double speedup) {
    TrialResult result;
    result.timings.push_back({8, 100, 100 / speedup, speedup, speedup - 0.05, speedup + 0.05, verdict});
    return result;
  };
  EXPECT_FALSE(keeps_tree(steps("FASTER", 1.2)));
  EXPECT_FALSE(keeps_tree(steps("SAME", 0.995)));
  EXPECT_FALSE(keeps_tree(steps("UNRESOLVED", 1.01)));
  EXPECT_TRUE(keeps_tree(steps("SLOWER", 0.9)));
  EXPECT_TRUE(keeps_tree(steps("UNRESOLVED", 0.95)));
  EXPECT_TRUE(keeps_tree(steps("INVALID", 1.2)));
  TrialResult both = steps("FASTER", 1.2);
  both.timings.push_back(steps("INVALID", 1.2).timings[0]);
  EXPECT_TRUE(keeps_tree(both)) << "one batch is enough";
}

TEST(StepTrial, EncodersAreTimedToo) {
  ThreadPool pool(1);
  Model model = load_model(resolve_model("tiny-xlm-roberta"), {.format = LoadFormat::kDummy}, pool);
  CompiledModel compiled(model);
  TrialResult steps = try_step(compiled, model, pool, GraphPhase::kEncode, {.sizes = {{3, 8}}, .seconds = 0.1});
  ASSERT_EQ(steps.timings.size(), 1u);
  EXPECT_EQ(steps.timings[0].rows, 24);
  EXPECT_GT(steps.timings[0].calls_ns, 0);
  EXPECT_GT(steps.timings[0].kernel_ns, 0);
}

}  // namespace
}  // namespace fk
