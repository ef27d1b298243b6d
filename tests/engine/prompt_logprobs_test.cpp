// Log-probabilities of prompts: those of a full forward pass over every beginning of the prompt, however the engine
// cuts it, whatever runs beside it, and whatever the prefix cache has of it.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "engine/batching_engine.h"
#include "engine/model_executor.h"

namespace fk {
namespace {

struct PromptAnswer {
  std::vector<int64_t> tokens;
  std::vector<DrawnLogprobs> logprobs, prompt;
  FinishReason finish = FinishReason::kNone;
  std::string error;
  int64_t cached_tokens = 0;
  int outputs = 0, with_prompt = 0;

  void add(RequestOutput output) {
    ++outputs;
    with_prompt += output.prompt_logprobs.empty() ? 0 : 1;
    if (!output.prompt_logprobs.empty()) {
      EXPECT_EQ(outputs, 1);
    }
    tokens.insert(tokens.end(), output.tokens.begin(), output.tokens.end());
    logprobs.insert(logprobs.end(), output.logprobs.begin(), output.logprobs.end());
    prompt.insert(prompt.end(), output.prompt_logprobs.begin(), output.prompt_logprobs.end());
    cached_tokens = output.cached_tokens;
    finish = output.finish;
    error = output.error;
  }
};

class PromptLogprobsTest : public testing::TestWithParam<const char*> {
 protected:
  explicit PromptLogprobsTest(const char* name = nullptr)
      : pool_(1),
        model_(load_model(resolve_model(name != nullptr ? name : GetParam()),
                          {.format = LoadFormat::kDummy, .dtype = DType::kF32, .seed = 3}, pool_)) {}

  Request request(int64_t prompt_tokens, int64_t start, int64_t max_tokens, std::optional<int> prompt_logprobs) const {
    Request r;
    for (int64_t i = 0; i < prompt_tokens; ++i)
      r.prompt.push_back((start + 7 * i * i + 3 * i) % model_.config.facts.vocab_size);
    r.max_tokens = max_tokens;
    r.prompt_logprobs = prompt_logprobs;
    return r;
  }

  std::vector<PromptAnswer> run(BatchingEngine& engine, const std::vector<Request>& requests) {
    std::vector<PromptAnswer> answers(requests.size());
    for (size_t i = 0; i < requests.size(); ++i)
      engine.submit(requests[i], [&answers, i](RequestOutput output) { answers[i].add(std::move(output)); });
    engine.run_until_idle();
    preemptions_ = engine.stats().preemptions;
    return answers;
  }
  std::vector<PromptAnswer> run(const BatchingOptions& options, const std::vector<Request>& requests) {
    BatchingEngine engine(model_, pool_, std::nullopt, options);
    return run(engine, requests);
  }

  // The logits after each token, of a pass of its own over everything up to it.
  std::vector<std::vector<double>> oracle(const std::vector<int64_t>& prompt) {
    ModelExecutor executor(model_, pool_, {.max_sequences = 1, .max_context = 512});
    std::vector<std::vector<double>> rows;
    for (size_t n = 1; n < prompt.size(); ++n) {
      RunningSequence sequence = executor.start();
      const View logits = executor.prefill(sequence, std::span(prompt).first(n));
      std::vector<double> row(logits.ptr<float>(), logits.ptr<float>() + logits.size(1));
      double sum = 0;
      const double largest = *std::max_element(row.begin(), row.end());
      for (double x : row) sum += std::exp(x - largest);
      for (double& x : row) x -= largest + std::log(sum);
      rows.push_back(std::move(row));
      executor.finish(sequence);
    }
    return rows;
  }

  void expect_right(const PromptAnswer& answer, const Request& request, const std::vector<std::vector<double>>& expected) {
    ASSERT_EQ(answer.prompt.size(), request.prompt.size() - 1);
    for (size_t i = 0; i < expected.size(); ++i) {
      const DrawnLogprobs& one = answer.prompt[i];
      const std::vector<double>& row = expected[i];
      SCOPED_TRACE(i);
      ASSERT_EQ(one.drawn.token, request.prompt[i + 1]);
      const double own = row[static_cast<size_t>(one.drawn.token)];
      ASSERT_NEAR(one.drawn.logprob, own, 2e-3);
      auto at_least = [&](double least) {
        return std::count_if(row.begin(), row.end(), [&](double x) { return x >= least; });
      };
      EXPECT_GE(one.rank, at_least(own + 4e-3));
      EXPECT_LE(one.rank, at_least(own - 4e-3));
      ASSERT_EQ(std::ssize(one.top), *request.prompt_logprobs);
      for (size_t k = 0; k < one.top.size(); ++k) {
        ASSERT_NEAR(one.top[k].logprob, row[static_cast<size_t>(one.top[k].token)], 2e-3);
        EXPECT_LE(at_least(one.top[k].logprob + 4e-3), static_cast<int64_t>(k)) << "a likelier one is missing";
      }
    }
  }

  ThreadPool pool_;
  Model model_;
  int64_t preemptions_ = 0;
};

TEST_P(PromptLogprobsTest, AreThoseOfAFullForwardPass) {
  const Request r = request(45, 4, 3, 4);
  const std::vector<std::vector<double>> expected = oracle(r.prompt);
  expect_right(run({}, {r})[0], r, expected);
  expect_right(run({.max_num_seqs = 1, .max_num_batched_tokens = 8, .block_size = 4}, {r})[0], r, expected);
  expect_right(run({.max_num_batched_tokens = 1}, {r})[0], r, expected);

  // Beside others, and with all of its prompt in the prefix cache.
  BatchingEngine engine(model_, pool_, std::nullopt, {.max_num_seqs = 3, .max_num_batched_tokens = 24});
  const std::vector<Request> requests = {request(45, 4, 6, std::nullopt), r, request(20, 9, 9, std::nullopt), r,
                                         request(33, 1, 2, 0)};
  std::vector<PromptAnswer> alone;
  for (const Request& one : requests) alone.push_back(run({}, {one})[0]);
  for (int round = 0; round < 2; ++round) {
    const std::vector<PromptAnswer> answers = run(engine, requests);
    for (size_t i = 0; i < answers.size(); ++i) EXPECT_EQ(answers[i].tokens, alone[i].tokens) << i;
    EXPECT_EQ(answers[1].cached_tokens, 0);
    EXPECT_EQ(answers[0].with_prompt + answers[2].with_prompt, 0);
    expect_right(answers[1], r, expected);
    expect_right(answers[3], r, expected);
    expect_right(answers[4], requests[4], oracle(requests[4].prompt));
  }
}

TEST_P(PromptLogprobsTest, APreemptedPromptGivesEachOnce) {
  std::vector<Request> requests;
  for (int64_t i = 0; i < 5; ++i)
    requests.push_back(request(24 + 3 * i, i, 12, i % 2 == 0 ? std::optional(1) : std::nullopt));
  const std::vector<PromptAnswer> answers =
      run({.max_num_seqs = 5, .max_num_batched_tokens = 16, .block_size = 4, .num_blocks = 20, .run_ahead = true},
          requests);
  for (size_t i = 0; i < requests.size(); ++i) {
    EXPECT_EQ(answers[i].finish, FinishReason::kLength) << answers[i].error;
    if (requests[i].prompt_logprobs) expect_right(answers[i], requests[i], oracle(requests[i].prompt));
  }
}

INSTANTIATE_TEST_SUITE_P(Models, PromptLogprobsTest,
                         testing::Values("tiny-llama", "tiny-mistral-window", "tiny-gemma3", "tiny-qwen3-moe",
                                         "tiny-deepseek-v3", "tiny-gla", "tiny-rwkv7", "tiny-qwen3-next"),
                         [](const auto& test) {
                           std::string name = std::string(test.param).substr(5);
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

class LlamaPromptTest : public PromptLogprobsTest {
 protected:
  LlamaPromptTest() : PromptLogprobsTest("tiny-llama") {}
};

// The memory for logits is bounded: a longer prompt is cut.
TEST_F(LlamaPromptTest, ALongPromptIsCut) {
  const Request r = request(500, 4, 2, 1);
  for (int64_t sequences : {1, 256}) {
    BatchingEngine engine(model_, pool_, std::nullopt, {.max_num_seqs = sequences});
    const PromptAnswer answer = run(engine, {r})[0];
    EXPECT_EQ(engine.stats().steps, 3);
    ASSERT_EQ(answer.prompt.size(), 499u);
    const PromptAnswer small = run({.max_num_seqs = sequences, .max_num_batched_tokens = 50}, {r})[0];
    for (size_t i = 0; i < 499; ++i)
      ASSERT_NEAR(answer.prompt[i].drawn.logprob, small.prompt[i].drawn.logprob, 2e-3) << i;
  }
}

TEST_F(LlamaPromptTest, NoTokenNeedBeDrawn) {
  BatchingEngine engine(model_, pool_, std::nullopt, {.max_model_len = 64});
  // As long as the context; alone, and without log-probabilities.
  const std::vector<Request> requests = {request(64, 1, 0, 2), request(1, 1, 0, 2), request(30, 2, 0, std::nullopt),
                                         request(30, 2, 5, std::nullopt)};
  const std::vector<PromptAnswer> answers = run(engine, requests);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(answers[i].finish, FinishReason::kLength);
    EXPECT_TRUE(answers[i].tokens.empty());
    EXPECT_EQ(answers[i].outputs, 1);
  }
  expect_right(answers[0], requests[0], oracle(requests[0].prompt));
  EXPECT_TRUE(answers[1].prompt.empty()) << "nothing comes before the first token";
  EXPECT_EQ(engine.stats().generated_tokens, 5);
  EXPECT_EQ(engine.stats().blocks_used, 0);
}

// What is drawn after a prompt is as likely as the same tokens in a longer prompt.
TEST_F(LlamaPromptTest, DrawnTokensAreAsLikelyAsTokensOfAPrompt) {
  Request r = request(17, 4, 9, std::nullopt);
  r.logprobs = 2;
  const PromptAnswer drawn = run({.speculative = {.num_speculative_tokens = 3}}, {r})[0];
  Request longer = request(17, 4, 0, 2);
  longer.prompt.insert(longer.prompt.end(), drawn.tokens.begin(), drawn.tokens.end());
  const PromptAnswer given = run({}, {longer})[0];
  for (size_t i = 0; i < drawn.tokens.size(); ++i) {
    EXPECT_NEAR(drawn.logprobs[i].drawn.logprob, given.prompt[16 + i].drawn.logprob, 2e-3);
    EXPECT_EQ(given.prompt[16 + i].rank, 1) << "greedy takes the likeliest";
  }
}

TEST_F(LlamaPromptTest, AWeightThatIsNotFiniteIsNamed) {
  // Only token 5 has it: the requests beside it go on.
  View embedding = model_.weights.get("model.embed_tokens.weight");
  embedding.ptr<float>()[5 * embedding.size(1)] = std::numeric_limits<float>::quiet_NaN();
  Request bad = request(40, 1, 4, 1), good = request(20, 1, 4, 1);
  for (int64_t& token : bad.prompt) token = token == 5 ? 6 : token;
  for (int64_t& token : good.prompt) token = token == 5 ? 6 : token;
  bad.prompt[3] = 5;
  const std::vector<PromptAnswer> answers = run({.max_num_batched_tokens = 16}, {bad, good});
  EXPECT_EQ(answers[0].finish, FinishReason::kError);
  EXPECT_NE(answers[0].error.find("embed_tokens"), std::string::npos) << answers[0].error;
  EXPECT_EQ(answers[1].finish, FinishReason::kLength) << answers[1].error;
}

}  // namespace
}  // namespace fk
