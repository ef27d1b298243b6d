// The score of an evaluation, with the example of its definition.
#include "bench/eval/score.h"

#include <gtest/gtest.h>

#include "bench/eval/workloads.h"
#include "core/error.h"

namespace fk {
namespace {

EvalItem item(std::string category, std::vector<double> throughput, std::vector<double> latency, int64_t aligned,
              int64_t checks) {
  return {std::move(category), std::move(throughput), std::move(latency), aligned, checks, false};
}

TEST(EvalScore, WorkedExample) {
  const EvalItem items[] = {item("llm", {2, 8}, {1}, 2, 2), item("llm", {16}, {16}, 1, 2),
                            item("diffusion", {1}, {4}, 1, 1)};
  EXPECT_NEAR(*items[0].throughput_speedup(), 4, 1e-12);
  EXPECT_NEAR(*items[0].blended_speedup(), 2, 1e-12);
  EXPECT_FALSE(items[1].valid());
  std::optional<EvalScore> score = eval_score(items);
  ASSERT_TRUE(score);
  ASSERT_EQ(score->categories.size(), 2u);
  EXPECT_EQ(score->categories[0].category, "llm");
  EXPECT_NEAR(score->categories[0].correctness, 0.75, 1e-12);
  EXPECT_NEAR(score->categories[0].coverage, 0.5, 1e-12);
  EXPECT_NEAR(*score->speedup, 2.0, 1e-12);
  EXPECT_NEAR(score->correctness, 0.875, 1e-12);
  EXPECT_NEAR(score->coverage, 0.75, 1e-12);
  EXPECT_NEAR(score->score, 1.3125, 1e-12);
}

TEST(EvalScore, NothingHasNoScore) { EXPECT_FALSE(eval_score({})); }

TEST(EvalScore, FailedItemsCountAsWrong) {
  EvalItem failed = item("llm", {5}, {5}, 2, 2);
  failed.failed = true;
  const EvalItem items[] = {failed, item("llm", {2}, {2}, 5, 5)};
  std::optional<EvalScore> score = eval_score(items);
  EXPECT_NEAR(score->score, 2 * 0.5 * 0.5, 1e-12);
  std::optional<EvalScore> only = eval_score({&failed, 1});
  ASSERT_TRUE(only);
  EXPECT_FALSE(only->speedup);
  EXPECT_EQ(only->score, 0);
}

TEST(EvalScore, UncheckedItemsAreNotValid) { EXPECT_FALSE(item("llm", {2}, {2}, 0, 0).valid()); }

TEST(EvalWorkloads, AreThoseOfTheProduct) {
  std::vector<EvalWorkload> all = eval_workloads(Task::kCausalLM, {});
  ASSERT_EQ(all.size(), 5u);
  EXPECT_EQ(all[0].name, "prefill-heavy");
  EXPECT_EQ(all[0].input_tokens, 1024);
  EXPECT_EQ(all[0].output_tokens, 512);
  EXPECT_EQ(all[2].output_tokens, 1024);
  EXPECT_EQ(all[3].batch, 1);
  EXPECT_EQ(all[4].batch, 32);
  EXPECT_EQ(eval_workloads(Task::kCausalLM, parse_scale("1/16"))[0].input_tokens, 64);
  // A diffusion model fills four tokens in a step.
  EXPECT_EQ(eval_workloads(Task::kDiffusionLM, {})[0].steps, 32);
  EXPECT_EQ(eval_workloads(Task::kDiffusionLM, parse_scale("1/32"))[0].steps, 1);
  EXPECT_EQ(eval_category(Task::kDiffusionLM), "diffusion");
}

TEST(EvalWorkloads, ScaleFitsTheContext) {
  EXPECT_EQ(fitting_scale(Task::kCausalLM, 1536, "m").text(), "1");
  EXPECT_EQ(fitting_scale(Task::kCausalLM, 512, "m").text(), "1/4");
  EXPECT_THROW(fitting_scale(Task::kCausalLM, 4, "m"), Error);
  for (const char* wrong : {"", "0", "2", "1/0", "3/2", "-1/2", "1/2/3", "x", "1/16 ", "0.5"})
    EXPECT_THROW(parse_scale(wrong), UsageError) << wrong;
}

}  // namespace
}  // namespace fk
