// BatchingEngine: the tokens of a request do not depend on what runs beside it, faults stay where they happen, and
// every request gets exactly one last output.
#include "engine/batching_engine.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <future>
#include <limits>
#include <map>

#include "core/error.h"
#include "engine/model_executor.h"
#include "tests/engine/allocation_count.h"

namespace fk {
namespace {

struct Result {
  std::vector<int64_t> tokens;
  std::string text, error, stop_reason;
  FinishReason finish = FinishReason::kNone;
  int64_t cached_tokens = 0;
  int last_outputs = 0;
  std::vector<DrawnLogprobs> logprobs;

  void add(RequestOutput output) {
    tokens.insert(tokens.end(), output.tokens.begin(), output.tokens.end());
    logprobs.insert(logprobs.end(), output.logprobs.begin(), output.logprobs.end());
    text += output.text;
    cached_tokens = output.cached_tokens;
    if (output.finish == FinishReason::kNone) return;
    finish = output.finish;
    error = output.error;
    stop_reason = output.stop_reason;
    ++last_outputs;
  }
};

class BatchingTest : public testing::TestWithParam<const char*> {
 protected:
  explicit BatchingTest(const char* name = nullptr)
      : pool_(1),  // threads that wait for each other in thousands of tiny steps are slow on a busy machine
        model_(load_model(resolve_model(name != nullptr ? name : GetParam()),
                          {.format = LoadFormat::kDummy, .dtype = DType::kF32, .seed = 3}, pool_)) {}

  std::vector<int64_t> prompt(int64_t n, int64_t start) const {
    std::vector<int64_t> ids;
    for (int64_t i = 0; i < n; ++i) ids.push_back((start + 7 * i * i + 3 * i) % model_.config.facts.vocab_size);
    return ids;
  }
  Request request(int64_t prompt_tokens, int64_t start, int64_t max_tokens) const {
    Request r;
    r.prompt = prompt(prompt_tokens, start);
    r.max_tokens = max_tokens;
    return r;
  }
  std::vector<Request> several() const {
    std::vector<Request> requests;
    for (int64_t i = 0; i < 6; ++i) requests.push_back(request(1 + 9 * i, 5 * i, 4 + 3 * i));
    requests[2].sampling = {.temperature = 0.9, .top_k = 20, .top_p = 0.95, .min_p = 0.01, .seed = 11};
    requests[3].sampling = {.seed = 1, .repetition_penalty = 1.3, .presence_penalty = 0.5, .frequency_penalty = 0.2};
    requests[4].sampling = {.temperature = 0.7, .seed = uint64_t{1} << 63, .logit_bias = {{7, 3.0f}, {9, -100.0f}}};
    requests[5].logprobs = 3;
    return requests;
  }
  std::vector<Result> run(const BatchingOptions& options, const std::vector<Request>& requests) {
    BatchingEngine engine(model_, pool_, std::nullopt, options);
    std::vector<Result> results(requests.size());
    for (size_t i = 0; i < requests.size(); ++i)
      engine.submit(requests[i], [&results, i](RequestOutput output) { results[i].add(std::move(output)); });
    engine.run_until_idle();
    for (const Result& result : results) EXPECT_EQ(result.last_outputs, 1);
    EXPECT_EQ(engine.stats().blocks_used, 0);
    EXPECT_EQ(engine.stats().running + engine.stats().waiting, 0);
    preemptions_ = engine.stats().preemptions;
    return results;
  }
  std::vector<Result> one_by_one(const std::vector<Request>& requests) {
    std::vector<Result> results;
    for (const Request& r : requests)
      results.push_back(run({.max_num_seqs = 1, .enable_prefix_caching = false}, {r})[0]);
    return results;
  }
  void expect_same_tokens(const std::vector<Result>& a, const std::vector<Result>& b) {
    ASSERT_EQ(a.size(), b.size());
    for (size_t i = 0; i < a.size(); ++i) {
      EXPECT_EQ(a[i].tokens, b[i].tokens) << "request " << i;
      EXPECT_EQ(a[i].text, b[i].text) << "request " << i;
      EXPECT_EQ(a[i].finish, b[i].finish) << "request " << i << ": " << a[i].error << b[i].error;
    }
  }

  ThreadPool pool_;
  Model model_;
  int64_t preemptions_ = 0;
};

TEST_P(BatchingTest, GreedyTokensAreThoseOfTheModel) {
  const Request r = request(21, 4, 12);
  ModelExecutor executor(model_, pool_, {.max_sequences = 1, .max_context = 64});
  RunningSequence sequence = executor.start();
  std::vector<int64_t> expected;
  View logits = executor.prefill(sequence, r.prompt);
  for (;;) {
    const float* row = logits.ptr<float>();
    expected.push_back(std::max_element(row, row + logits.size(1)) - row);
    if (std::ssize(expected) == r.max_tokens) break;
    const NewTokens item{&sequence, {&expected.back(), 1}};
    logits = executor.forward({&item, 1});
  }
  Result result = run({}, {r})[0];
  EXPECT_EQ(result.tokens, expected);
  EXPECT_EQ(result.finish, FinishReason::kLength);
}

TEST_P(BatchingTest, TokensDoNotDependOnTheBatch) {
  const std::vector<Request> requests = several();
  const std::vector<Result> alone = one_by_one(requests);
  expect_same_tokens(run({}, requests), alone);
  // Prompts in small chunks, between those that decode.
  expect_same_tokens(run({.max_num_seqs = 3, .max_num_batched_tokens = 8}, requests), alone);
  // So few blocks that some wait.
  expect_same_tokens(run({.max_num_batched_tokens = 64, .block_size = 4, .num_blocks = 18}, requests), alone);
  EXPECT_EQ(alone[5].logprobs.size(), alone[5].tokens.size());
}

TEST_P(BatchingTest, PreemptedRequestsGoOnWhereTheyWere) {
  std::vector<Request> requests;
  for (int64_t i = 0; i < 3; ++i) requests.push_back(request(5 + 4 * i, 7 * i, 110));
  requests[1].sampling = {.temperature = 0.8, .seed = 5, .repetition_penalty = 1.1};
  const std::vector<Result> alone = one_by_one(requests);
  expect_same_tokens(run({.block_size = 4, .num_blocks = 60}, requests), alone);
  // With a window that all layers have, pages are freed and nothing is missing.
  EXPECT_EQ(preemptions_ > 0, std::string_view(GetParam()) != "tiny-mistral-window");
}

TEST_P(BatchingTest, PrefixesAreComputedOnce) {
  Request first = request(50, 4, 8), second = first;
  second.prompt.push_back(17);
  BatchingEngine engine(model_, pool_, std::nullopt, {});
  std::vector<Result> results(2);
  for (size_t i = 0; i < 2; ++i) {
    engine.submit(i == 0 ? first : second, [&results, i](RequestOutput output) { results[i].add(std::move(output)); });
    engine.run_until_idle();
  }
  EXPECT_EQ(results[0].cached_tokens, 0);
  if (engine.stats().cached_prompt_tokens > 0) {
    EXPECT_EQ(results[1].cached_tokens, 48);
  }
  expect_same_tokens(results, one_by_one({first, second}));
}

INSTANTIATE_TEST_SUITE_P(Models, BatchingTest,
                         testing::Values("tiny-llama", "tiny-mistral-window", "tiny-gemma3", "tiny-qwen3-moe",
                                         "tiny-deepseek-v3", "tiny-deepseek-v32"),
                         [](const auto& test) {
                           std::string name = std::string(test.param).substr(5);
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

class LlamaTest : public BatchingTest {
 protected:
  LlamaTest() : BatchingTest("tiny-llama") {}

  template <class Body>
  static std::string message(Body&& body) {
    try {
      body();
    } catch (const UsageError& e) {
      return e.what();
    }
    return "";
  }
};

TEST_F(LlamaTest, RefusesWhatCanNeverRun) {
  BatchingEngine engine(model_, pool_, std::nullopt, {.max_model_len = 64, .num_blocks = 3});
  auto refused = [&](const Request& r) { return message([&] { engine.submit(r, {}); }); };
  EXPECT_NE(refused(request(60, 0, 10)).find("64"), std::string::npos);
  EXPECT_NE(refused(request(40, 0, 10)).find("3"), std::string::npos);
  EXPECT_NE(refused(request(0, 0, 10)).find("no tokens"), std::string::npos);
  Request bad = request(3, 0, 4);
  bad.prompt[1] = 320;
  EXPECT_NE(refused(bad).find("320"), std::string::npos);
  bad = request(3, 0, 4);
  bad.min_tokens = 5;
  EXPECT_NE(refused(bad).find("min_tokens"), std::string::npos);
  bad = request(3, 0, 4);
  bad.sampling.logit_bias = {{-1, 2.0f}};
  EXPECT_NE(refused(bad).find("-1"), std::string::npos);
  bad.sampling = {.presence_penalty = -3};
  EXPECT_NE(refused(bad).find("-3"), std::string::npos);
  bad.sampling = {.repetition_penalty = 0};
  EXPECT_NE(refused(bad).find("repetition"), std::string::npos);
  bad.sampling = {.frequency_penalty = NAN};
  EXPECT_NE(refused(bad).find("frequency"), std::string::npos);
  EXPECT_FALSE(engine.step());
  auto options = [&](const BatchingOptions& o) { return message([&] { BatchingEngine(model_, pool_, {}, o); }); };
  EXPECT_NE(options({.max_num_seqs = 0}).find("--max-num-seqs"), std::string::npos);
  EXPECT_NE(options({.block_size = 24}).find("power of two"), std::string::npos);
  EXPECT_NE(options({.gpu_memory_utilization = 1.5}).find("1.5"), std::string::npos);
  EXPECT_THROW(BatchingEngine(model_, pool_, {}, {.max_model_len = 513}), Error);
}

TEST_F(LlamaTest, AFullQueueIsSaidSo) {
  BatchingEngine engine(model_, pool_, std::nullopt, {.max_num_seqs = 2, .max_waiting = 1});
  std::vector<Result> results(3);
  for (Result& result : results)
    engine.submit(request(3, 1, 5), [&](RequestOutput output) { result.add(std::move(output)); });
  try {
    engine.submit(request(3, 1, 5), {});
    ADD_FAILURE() << "the queue is full";
  } catch (const QueueFull& e) {  // two of the three start with the next step
    EXPECT_STREQ(e.what(), "1 requests wait already, and no more than 1 may; try again later.");
  }
  EXPECT_EQ(engine.stats().waiting, 3);
  engine.run_until_idle();
  engine.submit(request(3, 1, 5), {});
}

TEST_F(LlamaTest, CancelledAndLateRequestsEndOnce) {
  const std::vector<Result> alone = one_by_one({request(30, 2, 20)});
  BatchingEngine engine(model_, pool_, std::nullopt, {.max_num_batched_tokens = 16});
  std::vector<Result> results(4);
  std::vector<RequestId> ids;
  for (size_t i = 0; i < 4; ++i) {
    Request r = request(30, 2, 20);
    if (i == 3) r.deadline = std::chrono::steady_clock::now();
    ids.push_back(engine.submit(r, [&results, i](RequestOutput output) { results[i].add(std::move(output)); }));
  }
  engine.cancel(ids[0]);  // before it ran
  for (int i = 0; i < 6; ++i) engine.step();
  engine.cancel(ids[1]);
  engine.cancel(ids[1]);
  engine.cancel(999);
  engine.run_until_idle();
  EXPECT_EQ(results[0].finish, FinishReason::kCancelled);
  EXPECT_EQ(results[1].finish, FinishReason::kCancelled);
  EXPECT_EQ(results[2].tokens, alone[0].tokens);
  EXPECT_EQ(results[3].finish, FinishReason::kTimeout);
  for (const Result& result : results) EXPECT_EQ(result.last_outputs, 1);
  EXPECT_EQ(engine.stats().finished, 4);
}

TEST_F(LlamaTest, NanEndsOnlyItsRequest) {
  const std::vector<Request> requests = {request(9, 1, 6), request(5, 100, 6), request(12, 3, 6)};
  std::vector<Result> alone = one_by_one(requests);
  const int64_t token = requests[1].prompt[0];
  for (size_t i : {size_t{0}, size_t{2}})
    ASSERT_EQ(std::count(requests[i].prompt.begin(), requests[i].prompt.end(), token) +
                  std::count(alone[i].tokens.begin(), alone[i].tokens.end(), token),
              0);
  View embedding = model_.weights.get("model.embed_tokens.weight");
  for (int64_t i = 0; i < embedding.size(1); ++i)
    embedding.ptr<float>()[token * embedding.stride(0) + i] = std::numeric_limits<float>::quiet_NaN();
  std::vector<Result> results = run({}, requests);
  EXPECT_EQ(results[1].finish, FinishReason::kError);
  EXPECT_NE(results[1].error.find("embed_tokens"), std::string::npos) << results[1].error;
  EXPECT_EQ(results[0].tokens, alone[0].tokens);
  EXPECT_EQ(results[2].tokens, alone[2].tokens);
}

// Throws at the n-th call.
class FailingObserver final : public CallObserver {
 public:
  explicit FailingObserver(int calls) : left_(calls) {}
  bool before_call(const Node&, const Context&, std::span<const OptView>) override {
    if (--left_ == 0) throw Error("A kernel failed.");
    return true;
  }

 private:
  int left_;
};

TEST_F(LlamaTest, AStepThatFailsEndsItsRequestsAndTheEngineGoesOn) {
  const std::vector<Request> requests = {request(9, 1, 6), request(5, 100, 6)};
  const std::vector<Result> alone = one_by_one(requests);
  BatchingEngine engine(model_, pool_, std::nullopt, {});
  std::vector<Result> failed(2), after(2);
  FailingObserver observer(50);
  for (size_t i = 0; i < 2; ++i)
    engine.submit(requests[i], [&failed, i](RequestOutput output) { failed[i].add(std::move(output)); });
  engine.step();
  engine.executor().observe(&observer);
  engine.run_until_idle();
  engine.executor().observe(nullptr);
  for (const Result& result : failed) {
    EXPECT_EQ(result.error, "A kernel failed.");
    EXPECT_EQ(result.finish, FinishReason::kError);
    EXPECT_EQ(result.last_outputs, 1);
  }
  EXPECT_EQ(engine.stats().blocks_used, 0);
  for (size_t i = 0; i < 2; ++i)
    engine.submit(requests[i], [&after, i](RequestOutput output) { after[i].add(std::move(output)); });
  engine.run_until_idle();
  expect_same_tokens(after, alone);
}

TEST_F(LlamaTest, StopsAndMinTokens) {
  Request r = request(9, 1, 12);
  const Result whole = one_by_one({r})[0];
  Request by_token = r, by_string = r, at_least = r;
  const int64_t third = whole.tokens[2];
  ASSERT_EQ(std::find(whole.tokens.begin(), whole.tokens.end(), third) - whole.tokens.begin(), 2);
  by_token.stop_tokens = {third};
  by_string.stop = {fmt::format("><{}>", third)};
  at_least.stop_tokens = {third};
  at_least.min_tokens = 6;
  std::vector<Result> results = run({}, {by_token, by_string, at_least});
  const std::string two = fmt::format("<{}><{}>", whole.tokens[0], whole.tokens[1]);
  EXPECT_EQ(results[0].text, two);
  EXPECT_EQ(results[0].stop_reason, std::to_string(third));
  EXPECT_EQ(results[0].tokens.size(), 3u);  // with the stop token
  EXPECT_EQ(results[1].text, two.substr(0, two.size() - 1));
  EXPECT_EQ(results[1].stop_reason, by_string.stop[0]);
  EXPECT_GE(results[2].tokens.size(), 6u);
  EXPECT_EQ(std::count(results[2].tokens.begin(), results[2].tokens.begin() + 6, third), 0);
}

TEST_F(LlamaTest, LogprobsAreThoseOfTheModelBeforePenalties) {
  Request plain = request(9, 1, 6), biased = plain;
  plain.logprobs = biased.logprobs = 2;
  const std::vector<Result> before = run({}, {plain});
  ASSERT_EQ(before[0].logprobs.size(), 6u);
  for (size_t i = 0; i < 6; ++i) {
    EXPECT_EQ(before[0].logprobs[i].drawn.token, before[0].tokens[i]);
    EXPECT_EQ(before[0].logprobs[i].top[0].token, before[0].tokens[i]);  // greedy
    EXPECT_LE(before[0].logprobs[i].top[1].logprob, before[0].logprobs[i].top[0].logprob);
  }
  biased.sampling.logit_bias = {{before[0].tokens[0], -100.0f}};
  const std::vector<Result> after = run({}, {biased});
  EXPECT_EQ(after[0].tokens[0], before[0].logprobs[0].top[1].token);
  EXPECT_EQ(after[0].logprobs[0].top[0].logprob, before[0].logprobs[0].top[0].logprob);
  EXPECT_EQ(after[0].logprobs[0].drawn.logprob, before[0].logprobs[0].top[1].logprob);
}

// The definitions of vLLM, in double, over the whole vocabulary.
TEST_F(LlamaTest, PenaltiesAreThoseOfVllm) {
  constexpr int64_t V = 50;
  const std::vector<int64_t> prompt = {1, 2, 3, 3, 44}, output = {3, 5, 5, 5, 44, 49};
  SamplingParams params{.repetition_penalty = 1.7, .presence_penalty = 0.9, .frequency_penalty = -0.6};
  params.logit_bias = {{5, 2.5f}, {20, -7.0f}};
  LogitEdits edits(params, prompt, {});
  for (int64_t token : output) edits.drawn(token);
  Tensor logits({2, V}, DType::kF32);
  std::vector<double> expected;
  for (int64_t i = 0; i < V; ++i) {
    logits.ptr<float>()[i] = logits.ptr<float>()[V + i] = static_cast<float>(std::sin(static_cast<double>(7 * i)) * 4);
    double x = static_cast<double>(logits.ptr<float>()[i]) + (i == 5 ? 2.5 : i == 20 ? -7.0 : 0.0);
    auto count = static_cast<double>(std::count(output.begin(), output.end(), i));
    if (count > 0 || std::count(prompt.begin(), prompt.end(), i) > 0) x = x > 0 ? x / 1.7 : x * 1.7;
    x -= -0.6 * count;
    x -= count > 0 ? 0.9 : 0.0;
    expected.push_back(x);
  }
  Sampler sampler(2, {});
  const SamplingParams plain;
  const SampledRow rows[] = {{&plain, 0, {}}, {&params, 6, edits.entries()}};
  sampler.set(rows);
  Arena arena;
  Context ctx{.pool = pool_, .arena = arena};
  const float second = logits.ptr<float>()[1];
  sampler.draw(ctx, logits.view());
  EXPECT_EQ(logits.ptr<float>()[1], second);
  for (int64_t i = 0; i < V; ++i) EXPECT_NEAR(logits.ptr<float>()[V + i], expected[static_cast<size_t>(i)], 1e-5) << i;
  EXPECT_EQ(sampler.tokens().ptr<int64_t>()[1], std::max_element(expected.begin(), expected.end()) - expected.begin());
}

TEST_F(LlamaTest, ItsOwnThreadAnswersManyClients) {
  const std::vector<Request> requests = several();
  const std::vector<Result> alone = one_by_one(requests);
  BatchingEngine engine(model_, pool_, std::nullopt, {.max_num_seqs = 4});
  engine.start();
  std::vector<std::thread> clients;
  std::vector<std::vector<Result>> results(4, std::vector<Result>(requests.size()));
  for (auto& own : results)
    clients.emplace_back([&engine, &requests, &own] {
      for (size_t i = 0; i < requests.size(); ++i) {
        std::promise<void> done;
        engine.submit(requests[i], [&](RequestOutput output) {
          bool last = output.finish != FinishReason::kNone;
          own[i].add(std::move(output));
          if (last) done.set_value();
        });
        done.get_future().wait();
      }
    });
  for (std::thread& client : clients) client.join();
  for (const auto& own : results) expect_same_tokens(own, alone);
  // What has not ended when the engine stops is cancelled.
  Result last;
  engine.submit(request(3, 1, 400), [&](RequestOutput output) { last.add(std::move(output)); });
  engine.stop();
  EXPECT_EQ(last.last_outputs, 1);
  EXPECT_THROW(engine.submit(request(3, 1, 4), {}), Error);
}

// A plan, its blocks and an output for each sequence; nothing that grows with the model or the context.
TEST_F(LlamaTest, ADecodeStepAllocatesLittle) {
  BatchingEngine engine(model_, pool_, std::nullopt, {.max_num_seqs = 2});
  for (int64_t i = 0; i < 2; ++i) engine.submit(request(20, i, 200), [](const RequestOutput&) {});
  for (int i = 0; i < 10; ++i) engine.step();
  int64_t before = allocation_count();
  for (int i = 0; i < 100; ++i) engine.step();
  EXPECT_LE(allocation_count() - before, 100 * 16);
}

TEST_F(LlamaTest, AClientThatThrowsEndsItsOwnRequest) {
  const std::vector<Result> alone = one_by_one({request(9, 1, 6)});
  BatchingEngine engine(model_, pool_, std::nullopt, {});
  Result other;
  engine.submit(request(5, 2, 6), [](RequestOutput) { throw Error("gone"); });
  engine.submit(request(9, 1, 6), [&](RequestOutput output) { other.add(std::move(output)); });
  engine.run_until_idle();
  EXPECT_EQ(other.tokens, alone[0].tokens);
  EXPECT_EQ(engine.stats().blocks_used, 0);
}

}  // namespace
}  // namespace fk
