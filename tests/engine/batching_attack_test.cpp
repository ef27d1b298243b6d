// Attacks on BatchingEngine: clients that come, leave and share prefixes at random, caches that are far too small, and
// values that are no numbers in memory that others get next. Whatever happens, a request that is not cancelled draws
// the tokens that it draws alone.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "core/error.h"
#include "core/rng.h"
#include "engine/batching_engine.h"
#include "engine/schedule_log.h"
#include "models/catalog.h"

namespace fk {
namespace {

struct Answer {
  std::vector<int64_t> tokens;
  std::vector<float> margins;  // between the two most likely tokens, where log-probabilities were asked for
  FinishReason finish = FinishReason::kNone;
  std::string error;
  int ends = 0;

  void add(const RequestOutput& output) {
    EXPECT_EQ(ends, 0) << "an output after the last one";
    tokens.insert(tokens.end(), output.tokens.begin(), output.tokens.end());
    for (const DrawnLogprobs& l : output.logprobs) margins.push_back(l.top[0].logprob - l.top[1].logprob);
    if (output.finish == FinishReason::kNone) return;
    finish = output.finish;
    error = output.error;
    ++ends;
  }
};

// Equal, or a beginning of it where the request was cut short. Where two tokens are as good as equally likely, the
// order of a sum decides; nothing is expected after that.
void expect_as_alone(const Answer& got, const Answer& alone, const std::string& what, float tie = 1e-3f) {
  EXPECT_EQ(got.ends, 1) << what;
  size_t known = std::min(got.tokens.size(), alone.tokens.size());
  for (size_t i = 0; i < known; ++i) {
    if (alone.margins[i] < tie) return;
    ASSERT_EQ(got.tokens[i], alone.tokens[i]) << what << ", token " << i << ", margin " << alone.margins[i];
  }
  if (got.finish == FinishReason::kCancelled) return;
  EXPECT_EQ(got.finish, alone.finish) << what << ": " << got.error;
  EXPECT_EQ(got.tokens.size(), alone.tokens.size()) << what;
}

class Attack {
 public:
  explicit Attack(const std::string& name)
      : name_(name),
        // Activations of BitNet are rounded to 8 bits, so a last bit more or less can become one of 127 steps.
        tie_(name.find("bitnet") != name.npos ? 0.05f : 1e-3f),
        pool_(1),
        model_(load_model(resolve_model(name), {.format = LoadFormat::kDummy, .dtype = DType::kF32, .seed = 5}, pool_)),
        random_(7, name) {}

  int64_t below(int64_t n) { return static_cast<int64_t>(random_.below(at_++, static_cast<uint64_t>(n))); }
  Model& model() { return model_; }
  ThreadPool& pool() { return pool_; }

  // Many begin alike, so that they share pages.
  void make_requests(int64_t count, int64_t max_prompt, int64_t max_tokens) {
    for (int64_t i = 0; i < count; ++i) {
      Request r;
      if (i > 0 && below(3) > 0) {
        const std::vector<int64_t>& other = requests_[static_cast<size_t>(below(i))].prompt;
        r.prompt.assign(other.begin(), other.begin() + below(std::ssize(other)) + 1);
      }
      for (int64_t n = 1 + below(max_prompt); std::ssize(r.prompt) < n;)
        r.prompt.push_back(below(model_.config.facts.vocab_size));
      r.max_tokens = 1 + below(max_tokens);
      requests_.push_back(std::move(r));
    }
    BatchingEngine engine(model_, pool_, std::nullopt, {.max_num_seqs = 1, .enable_prefix_caching = false});
    alone_.resize(requests_.size());
    for (size_t i = 0; i < requests_.size(); ++i) {
      Request r = requests_[i];
      r.logprobs = 2;
      engine.submit(r, [this, i](const RequestOutput& output) { alone_[i].add(output); });
      engine.run_until_idle();
      ASSERT_EQ(alone_[i].finish, FinishReason::kLength) << name_ << ": " << alone_[i].error;
    }
  }
  const std::vector<Request>& requests() const { return requests_; }
  const std::vector<Answer>& alone() const { return alone_; }
  // Blocks for the largest request, and a few more.
  int64_t blocks(int64_t block_size, int64_t more) const {
    int64_t most = 0;
    for (const Request& r : requests_) most = std::max(most, std::ssize(r.prompt) + r.max_tokens);
    return (most + block_size - 1) / block_size + more;
  }

  // Requests arrive between steps, and `cancels` in a hundred steps cancel up to three of them. Returns what the engine
  // counted.
  EngineStats storm(const BatchingOptions& options, int64_t arrivals, int64_t cancels) {
    BatchingEngine engine(model_, pool_, std::nullopt, options);
    std::vector<Answer> answers(static_cast<size_t>(arrivals));
    std::vector<RequestId> ids;
    for (bool busy = true; busy || std::ssize(ids) < arrivals;) {
      for (int64_t n = below(4); n > 0 && std::ssize(ids) < arrivals; --n) {
        size_t i = ids.size();
        ids.push_back(engine.submit(requests_[i % requests_.size()],
                                    [&answers, i](const RequestOutput& output) { answers[i].add(output); }));
      }
      if (!ids.empty() && below(100) < cancels)
        for (int64_t n = 1 + below(3); n > 0; --n) engine.cancel(ids[static_cast<size_t>(below(std::ssize(ids)))]);
      busy = engine.step();
    }
    for (size_t i = 0; i < answers.size(); ++i)
      expect_as_alone(answers[i], alone_[i % alone_.size()], name_ + ", request " + std::to_string(i), tie_);
    EngineStats stats = engine.stats();
    EXPECT_EQ(stats.blocks_used, 0);
    EXPECT_EQ(stats.running + stats.waiting, 0);
    EXPECT_EQ(stats.finished, arrivals);
    return stats;
  }

 private:
  std::string name_;
  float tie_;  // margin below which either token may be drawn
  ThreadPool pool_;
  Model model_;
  Stream random_;
  uint64_t at_ = 0;
  std::vector<Request> requests_;
  std::vector<Answer> alone_;
};

std::vector<std::string> tiny_models() {
  std::vector<std::string> names;
  for (const CatalogEntry& entry : catalog())
    if (entry.name.starts_with("tiny-") && entry.config.facts.task == Task::kCausalLM) names.push_back(entry.name);
  return names;
}

void attack(const std::string& name, int64_t arrivals) {
  SCOPED_TRACE(name);
  Attack attack(name);
  ASSERT_NO_FATAL_FAILURE(attack.make_requests(8, 40, 20));
  for (bool ahead : {false, true}) {
    SCOPED_TRACE(ahead ? "with run-ahead" : "without run-ahead");
    attack.storm({.max_num_seqs = 5,
                  .max_num_batched_tokens = 7,
                  .block_size = 4,
                  .num_blocks = attack.blocks(4, 3),
                  .run_ahead = ahead},
                 arrivals, 20);
    attack.storm({.max_num_seqs = 16, .max_num_batched_tokens = 50, .run_ahead = ahead}, arrivals, 5);
    attack.storm({.max_num_seqs = 2,
                  .max_num_batched_tokens = 3,
                  .block_size = 1,
                  .num_blocks = attack.blocks(1, 0),
                  .run_ahead = ahead},
                 arrivals / 2, 50);
  }
}

TEST(BatchingAttack, StormsLeaveTokensAsTheyAreAlone) {
  for (const char* name : {"tiny-llama", "tiny-mistral-window", "tiny-gemma3"}) attack(name, 20);
}

TEST(BatchingAttack, SlowStormsOnEveryFamily) {
  for (const std::string& name : tiny_models()) attack(name, 30);
}

TEST(BatchingAttack, ACacheThatIsTooSmallForAllPreempts) {
  Attack attack("tiny-llama");
  ASSERT_NO_FATAL_FAILURE(attack.make_requests(6, 10, 150));
  EngineStats stats = attack.storm({.max_num_seqs = 6, .block_size = 4, .num_blocks = attack.blocks(4, 4)}, 12, 0);
  EXPECT_GT(stats.preemptions, 0);
  EXPECT_GT(stats.cached_prompt_tokens, 0);
}

// The blocks of a request whose values are no numbers go to others, which must not see them.
TEST(BatchingAttack, ValuesThatAreNoNumbersStayWithTheirRequest) {
  for (const char* name : {"tiny-llama", "tiny-mistral-window", "tiny-mixtral", "tiny-qwen3-mqa"}) {
    SCOPED_TRACE(name);
    Attack attack(name);
    View embedding = attack.model().weights.get("model.embed_tokens.weight");
    const int64_t bad = 3;
    ASSERT_NO_FATAL_FAILURE(attack.make_requests(6, 30, 12));
    for (int64_t i = 0; i < embedding.size(1); ++i)
      embedding.ptr<float>()[bad * embedding.stride(0) + i] = std::numeric_limits<float>::quiet_NaN();
    BatchingOptions options{.max_num_seqs = 3, .max_num_batched_tokens = 16, .block_size = 8};
    options.num_blocks = attack.blocks(8, 2);
    BatchingEngine engine(attack.model(), attack.pool(), std::nullopt, options);
    Request poison;
    poison.prompt.assign(17, bad);
    for (bool together : {false, true}) {
      for (size_t i = 0; i < attack.requests().size(); ++i) {
        const Request& r = attack.requests()[i];
        const Answer& alone = attack.alone()[i];
        if (std::count(r.prompt.begin(), r.prompt.end(), bad) +
            std::count(alone.tokens.begin(), alone.tokens.end(), bad))
          continue;
        Answer poisoned, clean;
        engine.submit(poison, [&](const RequestOutput& output) { poisoned.add(output); });
        if (!together) engine.run_until_idle();
        engine.submit(r, [&](const RequestOutput& output) { clean.add(output); });
        engine.run_until_idle();
        EXPECT_EQ(poisoned.finish, FinishReason::kError);
        expect_as_alone(clean, alone, "request " + std::to_string(i));
      }
    }
  }
}

// Requests of all kinds in one batch, some of which the host must look at before the next step.
TEST(BatchingAttack, RunAheadDrawsTheSameTokens) {
  Attack attack("tiny-llama");
  ASSERT_NO_FATAL_FAILURE(attack.make_requests(12, 20, 40));
  auto answers = [&](bool ahead) {
    std::vector<Answer> list(attack.requests().size());
    BatchingEngine engine(attack.model(), attack.pool(), std::nullopt,
                          {.max_num_seqs = 5, .max_num_batched_tokens = 16, .run_ahead = ahead});
    for (size_t i = 0; i < list.size(); ++i) {
      Request r = attack.requests()[i];
      if (i % 4 == 1) r.sampling = {.temperature = 0.9, .top_p = 0.9, .seed = i};
      if (i % 4 == 2) r.sampling.repetition_penalty = 1.3;
      if (i % 6 == 3) r.logprobs = 2;
      if (i % 3 == 0) r.stop_tokens = {attack.alone()[i].tokens[attack.alone()[i].tokens.size() / 2]};
      engine.submit(r, [&list, i](const RequestOutput& output) { list[i].add(output); });
    }
    engine.run_until_idle();
    EXPECT_EQ(engine.stats().blocks_used, 0);
    return list;
  };
  const std::vector<Answer> plain = answers(false), ahead = answers(true);
  size_t stopped = 0;
  for (size_t i = 0; i < plain.size(); ++i) {
    EXPECT_EQ(ahead[i].tokens, plain[i].tokens) << i;
    EXPECT_EQ(ahead[i].finish, plain[i].finish) << i;
    EXPECT_EQ(ahead[i].margins, plain[i].margins) << i;
    stopped += plain[i].finish == FinishReason::kStop ? 1 : 0;
  }
  EXPECT_GT(stopped, 1u) << "some texts must end while a step is in flight";
}

TEST(BatchingAttack, TheLogOfAnEngineCanBeReplayed) {
  Attack attack("tiny-llama");
  ASSERT_NO_FATAL_FAILURE(attack.make_requests(5, 20, 20));
  std::filesystem::path file = std::filesystem::path(testing::TempDir()) / fmt::format("schedule{}.log", getpid());
  setenv("FASTKERNELS_SCHEDULE_LOG", file.c_str(), 1);
  EngineStats stats = attack.storm({.max_num_seqs = 3, .max_num_batched_tokens = 9, .block_size = 4}, 10, 20);
  setenv("FASTKERNELS_SCHEDULE_LOG", "/dev/null/no", 1);
  EXPECT_THROW(attack.storm({}, 1, 0), Error);
  unsetenv("FASTKERNELS_SCHEDULE_LOG");
  std::ifstream log(file);
  int64_t steps = 0;
  replay_schedule(log, [&](const Scheduler&, const StepPlan& plan) { steps += !plan.empty(); });
  EXPECT_EQ(steps, stats.steps);
  std::filesystem::remove(file);
}

TEST(BatchingAttack, AClientMaySubmitAndCancelFromItsSink) {
  Attack attack("tiny-llama");
  ASSERT_NO_FATAL_FAILURE(attack.make_requests(4, 20, 8));
  BatchingEngine engine(attack.model(), attack.pool(), std::nullopt, {.max_num_seqs = 2});
  std::vector<Answer> answers(5);
  // Each request begins the next when it ends; the last one cancels itself at its first token.
  std::function<void(size_t)> begin = [&](size_t i) {
    auto id = std::make_shared<RequestId>(0);
    *id = engine.submit(attack.requests()[i % 4], [&, i, id](const RequestOutput& output) {
      answers[i].add(output);
      if (i == 4 && answers[i].ends == 0) engine.cancel(*id);
      if (i < 4 && answers[i].ends > 0) begin(i + 1);
    });
  };
  begin(0);
  engine.run_until_idle();
  for (size_t i = 0; i < 5; ++i) expect_as_alone(answers[i], attack.alone()[i % 4], "request " + std::to_string(i));
}

TEST(BatchingAttack, ClientsOnManyThreadsGetExactlyOneEnd) {
  Attack attack("tiny-llama");
  ASSERT_NO_FATAL_FAILURE(attack.make_requests(5, 20, 20));
  constexpr size_t kThreads = 4, kEach = 15;
  std::vector<std::vector<Answer>> answers(kThreads, std::vector<Answer>(kEach));
  {
    BatchingEngine engine(attack.model(), attack.pool(), std::nullopt,
                          {.max_num_seqs = 3, .block_size = 4, .num_blocks = attack.blocks(4, 2)});
    engine.start();
    std::vector<std::thread> clients;
    for (size_t t = 0; t < kThreads; ++t)
      clients.emplace_back([&, t] {
        std::vector<RequestId> ids;
        for (size_t i = 0; i < kEach; ++i) {
          ids.push_back(engine.submit(attack.requests()[(t + i) % 5],
                                      [&answers, t, i](const RequestOutput& output) { answers[t][i].add(output); }));
          if (i % 3 == t % 3) engine.cancel(ids[i / 2]);
          engine.stats();
        }
      });
    for (std::thread& client : clients) client.join();
    // What has not ended by now is cancelled with the engine.
  }
  for (size_t t = 0; t < kThreads; ++t)
    for (size_t i = 0; i < kEach; ++i)
      expect_as_alone(answers[t][i], attack.alone()[(t + i) % 5], std::to_string(t) + "/" + std::to_string(i));
}

}  // namespace
}  // namespace fk
