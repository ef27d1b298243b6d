// The engine: sequences keep their state, blocks are freed, a decode step allocates nothing, errors contain sizes.
#include "engine/model_executor.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "tests/engine/allocation_count.h"
#include "tests/engine/generate.h"

namespace fk {
namespace {

class RunnerTest : public testing::TestWithParam<const char*> {
 protected:
  RunnerTest()
      : pool_(2),
        model_(load_model(resolve_model(GetParam()), {.format = LoadFormat::kDummy, .dtype = DType::kBF16}, pool_)) {}

  std::vector<int64_t> tokens(int64_t n) const {
    std::vector<int64_t> ids;
    for (int64_t i = 0; i < n; ++i) ids.push_back((7 * i + 3) % model_.config.facts.vocab_size);
    return ids;
  }

  ThreadPool pool_;
  Model model_;
};

TEST_P(RunnerTest, DecodingAllocatesNothing) {
  ModelExecutor executor(model_, pool_, {.max_sequences = 2, .max_context = 128});
  Sampler sampler(2, {});
  RunningSequence a = executor.start(), b = executor.start();
  std::vector<int64_t> prompt = tokens(20);
  executor.prefill(a, prompt);
  executor.prefill(b, std::span(prompt).first(3));
  const SamplingParams params[2] = {{}, {.temperature = 0.8, .top_k = 5, .top_p = 0.9, .min_p = 0.01, .seed = 3}};
  std::array<int64_t, 2> next{1, 2}, steps{0, 0};
  auto step = [&] {
    const NewTokens items[] = {{&a, {&next[0], 1}}, {&b, {&next[1], 1}}};
    View logits = executor.forward(items);
    Context ctx = executor.context();
    auto picked = sampler.pick(ctx, logits, params, steps);
    std::copy(picked.begin(), picked.end(), next.begin());
    ++steps[0], ++steps[1];
  };
  for (int i = 0; i < 4; ++i) step();
  int64_t before = allocation_count();
  for (int i = 0; i < 40; ++i) step();
  EXPECT_EQ(allocation_count() - before, 0);
}

TEST_P(RunnerTest, RepeatedRunsGiveTheSameBits) {
  ModelExecutor executor(model_, pool_, {.max_sequences = 1, .max_context = 64});
  std::vector<int64_t> prompt = tokens(21);
  std::vector<float> first;
  for (int i = 0; i < 3; ++i) {
    RunningSequence sequence = executor.start();
    View logits = executor.prefill(sequence, prompt);
    std::vector<float> row(logits.ptr<float>(), logits.ptr<float>() + logits.size(1));
    executor.finish(sequence);
    if (i == 0) first = row;
    EXPECT_EQ(row, first) << "call " << i;
  }
}

TEST_P(RunnerTest, BlocksComeBackAndCanBeReused) {
  ModelExecutor executor(model_, pool_, {.max_sequences = 1, .max_context = 32});
  std::vector<int64_t> prompt = tokens(32);
  for (int i = 0; i < 5; ++i) {
    RunningSequence sequence = executor.start();
    executor.prefill(sequence, prompt);
    executor.finish(sequence);
  }
  RunningSequence holder = executor.start(), other = executor.start();
  executor.prefill(holder, prompt);
  const NewTokens item{&other, std::span(prompt).first(1)};
  EXPECT_THROW(executor.forward({&item, 1}), Error);
}

TEST_P(RunnerTest, RefusesWithNumbers) {
  ModelExecutor executor(model_, pool_, {.max_sequences = 1, .max_context = 16});
  RunningSequence sequence = executor.start();
  auto message = [&](auto body) -> std::string {
    try {
      body();
    } catch (const Error& e) {
      return e.what();
    }
    return "";
  };
  std::string beyond = std::to_string(model_.config.facts.vocab_size);
  EXPECT_NE(message([&] {
              std::vector<int64_t> bad{model_.config.facts.vocab_size};
              executor.prefill(sequence, bad);
            }).find(beyond),
            std::string::npos);
  EXPECT_NE(message([&] {
              std::vector<int64_t> bad{-1};
              executor.prefill(sequence, bad);
            }).find("-1"),
            std::string::npos);
  EXPECT_NE(message([&] { executor.prefill(sequence, {}); }).find("no tokens"), std::string::npos);
  EXPECT_NE(message([&] { executor.prefill(sequence, tokens(17)); }).find("17"), std::string::npos);
  int64_t context = model_.config.facts.max_position_embeddings;
  EXPECT_NE(message([&] { ModelExecutor(model_, pool_, {.max_context = context + 1}); }).find(std::to_string(context)),
            std::string::npos);
}

TEST_P(RunnerTest, EveryModelDispatchesToItsBestKernels) {
  ModelExecutor executor(model_, pool_, {.max_sequences = 1, .max_context = 64});
  Sampler sampler(1, {});
  generate(executor, sampler, {.prompt = tokens(9), .max_tokens = 4, .sampling = {}, .stop_tokens = {}});
  for (const DispatchCount& d : collect_dispatches(*model_.root)) EXPECT_NE(d.implementation, "oracle") << d.op;
}

INSTANTIATE_TEST_SUITE_P(Models, RunnerTest, testing::Values("tiny-llama", "tiny-mistral", "tiny-qwen3", "tiny-gemma3"),
                         [](const auto& test) { return std::string(test.param).substr(5); });

TEST(GenerateTest, StopsAtAStopTokenAndAtTheSinksWord) {
  ThreadPool pool(1);
  Model model = load_model(resolve_model("tiny-llama"), {.format = LoadFormat::kDummy, .dtype = DType::kF32}, pool);
  ModelExecutor executor(model, pool, {.max_sequences = 1, .max_context = 64});
  Sampler sampler(1, {});
  GenerateRequest request{
      .prompt = {5, 6, 7}, .max_tokens = 12, .sampling = {.temperature = 1, .seed = 4}, .stop_tokens = {}};
  std::vector<int64_t> all = generate(executor, sampler, request);
  ASSERT_EQ(all.size(), 12u);
  EXPECT_EQ(generate(executor, sampler, request), all) << "the same seed draws the same text";

  int64_t seen = 0;
  auto cut = generate(executor, sampler, request, [&](int64_t) { return ++seen < 5; });
  EXPECT_EQ(cut, std::vector<int64_t>(all.begin(), all.begin() + 5));

  request.stop_tokens = {all[6]};
  auto stopped = generate(executor, sampler, request);
  auto first = std::find(all.begin(), all.end(), all[6]);
  EXPECT_EQ(stopped, std::vector<int64_t>(all.begin(), first));

  request.sampling.seed = 5;
  request.stop_tokens = {};
  EXPECT_NE(generate(executor, sampler, request), all);
}

// One batch, two requests: each is sampled by its own parameters.
TEST(SamplerTest, EachRowHasItsOwnParameters) {
  ThreadPool pool(1);
  Arena arena;
  Context ctx{pool, arena};
  Tensor logits({3, 50}, DType::kF32);
  for (int64_t i = 0; i < 150; ++i) logits.ptr<float>()[i] = static_cast<float>((i * 37) % 50) * 0.05f;
  const SamplingParams params[] = {{}, {.temperature = 5, .seed = 1}, {.temperature = 5, .top_k = 1, .seed = 2}};
  Sampler sampler(3, {});
  std::vector<int64_t> free_draws;
  for (int64_t step = 0; step < 40; ++step) {
    const int64_t steps[] = {step, step, step};
    auto tokens = sampler.pick(ctx, logits, params, steps);
    for (int row : {0, 2}) {
      const float* x = logits.ptr<float>() + row * 50;
      EXPECT_EQ(tokens[static_cast<size_t>(row)], std::max_element(x, x + 50) - x) << row;
    }
    free_draws.push_back(tokens[1]);
  }
  std::sort(free_draws.begin(), free_draws.end());
  EXPECT_GT(std::unique(free_draws.begin(), free_draws.end()) - free_draws.begin(), 10);
}

TEST(SamplerTest, ParametersOutOfRangeAreUsageErrors) {
  for (const SamplingParams& bad :
       {SamplingParams{.temperature = -1}, SamplingParams{.top_k = -1}, SamplingParams{.top_p = 0},
        SamplingParams{.top_p = 1.5}, SamplingParams{.min_p = -0.1}, SamplingParams{.temperature = NAN}})
    EXPECT_THROW(check_sampling_params(bad), UsageError);
}

}  // namespace
}  // namespace fk
