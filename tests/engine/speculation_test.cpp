// Speculative decoding: guesses change how many steps a text takes and nothing else, for every family without recurrent
// states, under penalties, stops, log-probabilities, small caches and values that are no numbers.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "core/error.h"
#include "engine/batching_engine.h"
#include "models/catalog.h"
#include "tests/engine/representative_models.h"
#include "tests/engine/spoken.h"

namespace fk {
namespace {

class Speculation {
 public:
  explicit Speculation(const std::string& name)
      : pool_(1),
        model_(
            load_model(resolve_model(name), {.format = LoadFormat::kDummy, .dtype = DType::kF32, .seed = 5}, pool_)) {}

  Model& model() { return model_; }
  bool recurrent() const {
    const std::vector<StateSpec> states = collect_states(*model_.root);
    return std::any_of(states.begin(), states.end(), [](const StateSpec& s) { return !s.per_token(); });
  }

  // Text that repeats itself, so that there is something to guess.
  Request request(int64_t period, int64_t prompt_tokens, int64_t max_tokens) const {
    Request r;
    for (int64_t i = 0; i < prompt_tokens; ++i)
      r.prompt.push_back((11 + 17 * (i % period)) % model_.config.facts.vocab_size);
    r.max_tokens = max_tokens;
    return r;
  }
  // Bias makes a few tokens likely, so that the model repeats itself and is often, not always, guessed right.
  Request repetitive(int64_t period, int64_t prompt_tokens, int64_t max_tokens) const {
    Request r = request(period, prompt_tokens, max_tokens);
    for (int64_t token = 20; token < 26; ++token) r.sampling.logit_bias.emplace_back(token, 30.0f);
    return r;
  }

  std::vector<Spoken> run(const BatchingOptions& options, const std::vector<Request>& requests,
                          CallObserver* observer = nullptr) {
    BatchingEngine engine(model_, pool_, std::nullopt, options);
    engine.executor().observe(observer);
    std::vector<Spoken> results(requests.size());
    for (size_t i = 0; i < requests.size(); ++i)
      engine.submit(requests[i], [&results, i](RequestOutput output) { results[i].add(std::move(output)); });
    engine.run_until_idle();
    stats_ = engine.stats();
    EXPECT_EQ(stats_.blocks_used, 0);
    for (const Spoken& result : results) EXPECT_EQ(result.ends, 1);
    return results;
  }

  const EngineStats& stats() const { return stats_; }

 private:
  ThreadPool pool_;
  Model model_;
  EngineStats stats_;
};

constexpr SpeculativeOptions kGuess{.num_speculative_tokens = 4, .prompt_lookup_max = 3, .prompt_lookup_min = 1};

std::vector<Request> various(const Speculation& s) {
  std::vector<Request> requests;
  for (int64_t period : {1, 3, 7, 20}) requests.push_back(s.repetitive(period, 9 + 4 * period, 40));
  requests.push_back(s.request(5, 23, 40));
  requests.push_back(s.repetitive(4, 1, 30));
  requests.back().sampling.temperature = 0.8;
  requests.back().sampling.seed = 9;
  return requests;
}

class SpeculationOfModels : public testing::TestWithParam<std::string> {};

TEST_P(SpeculationOfModels, DrawsTheSameTokensInFewerSteps) {
  Speculation s(GetParam());
  if (s.recurrent()) {
    try {
      s.run({.speculative = kGuess}, {});
      FAIL() << "recurrent states cannot go back";
    } catch (const UsageError& e) {
      EXPECT_NE(std::string(e.what()).find("recurrent states"), std::string::npos) << e.what();
    }
    return;
  }
  const std::vector<Request> requests = various(s);
  const std::vector<Spoken> plain = s.run({}, requests);
  const int64_t steps = s.stats().steps;
  EXPECT_EQ(s.stats().draft_tokens, 0);
  expect_same(s.run({.speculative = kGuess}, requests), plain);
  EXPECT_GT(s.stats().accepted_tokens, 0);
  EXPECT_GT(s.stats().draft_tokens, s.stats().accepted_tokens);
  EXPECT_LE(s.stats().steps, steps);
  // Few tokens in a step, small pages, and so few of them that requests are preempted.
  expect_same(s.run({.max_num_seqs = 4,
                     .max_num_batched_tokens = 9,
                     .block_size = 4,
                     .num_blocks = 60,
                     .speculative = {.num_speculative_tokens = 7, .prompt_lookup_max = 2, .prompt_lookup_min = 2}},
                    requests),
              plain);
}

std::vector<std::string> language_models() {
  std::vector<std::string> names;
  for (const CatalogEntry& entry : catalog())
    if (entry.name.starts_with("tiny-") && entry.config.facts.task == Task::kCausalLM) names.push_back(entry.name);
  return names;
}

// A name that is misspelt there would leave its model to the slow set.
TEST(RepresentativeModels, AreInTheCatalog) {
  EXPECT_EQ(part_of_sweep(language_models(), true).size(), std::size(kRepresentativeModels));
}

INSTANTIATE_TEST_SUITE_P(Models, SpeculationOfModels, testing::ValuesIn(part_of_sweep(language_models(), true)),
                         name_of_model);
INSTANTIATE_TEST_SUITE_P(SlowModels, SpeculationOfModels, testing::ValuesIn(part_of_sweep(language_models(), false)),
                         name_of_model);

TEST(SpeculationTest, StopsPenaltiesAndLogprobsAreThoseWithoutIt) {
  Speculation s("tiny-llama");
  const Request plain = s.repetitive(3, 12, 40);
  const std::vector<int64_t> whole = s.run({}, {plain})[0].tokens;
  std::vector<Request> requests(7, plain);
  requests[0].stop_tokens = {whole[17]};
  requests[1].stop = {fmt::format("<{}><{}>", whole[20], whole[21])};
  requests[2].sampling.repetition_penalty = 1.2;
  requests[3].sampling.frequency_penalty = 0.5;
  requests[4].min_tokens = 30;
  requests[4].stop_tokens = {whole[3], whole[35]};
  requests[5].logprobs = 3;
  requests[6].max_tokens = 1;
  for (int64_t max_tokens = 2; max_tokens < 12; ++max_tokens) {
    requests.push_back(plain);
    requests.back().max_tokens = max_tokens;
  }
  const std::vector<Spoken> before = s.run({}, requests);
  expect_same(s.run({.speculative = kGuess}, requests), before);
  EXPECT_GT(s.stats().accepted_tokens, 0);
  // Steps that are started before the tokens of the one before are known.
  expect_same(s.run({.run_ahead = true, .speculative = kGuess}, requests), before);
  EXPECT_GT(s.stats().accepted_tokens, 0);
  // What changes the logits by what was drawn is not guessed.
  s.run({.speculative = kGuess}, {requests[2], requests[3], requests[4]});
  EXPECT_EQ(s.stats().draft_tokens, 0);
}

TEST(SpeculationTest, ATextThatRepeatsItselfTakesFewSteps) {
  Speculation s("tiny-llama");
  Request r = s.request(1, 8, 100);
  r.sampling.logit_bias = {{11, 1000.0f}};
  s.run({.speculative = kGuess}, {r});
  EXPECT_EQ(s.stats().generated_tokens, 100);
  EXPECT_LE(s.stats().steps, 1 + 20) << "five tokens in each step after the prompt's";
  EXPECT_EQ(s.stats().draft_tokens, s.stats().accepted_tokens);
}

// Writes NaN over a row of logits in the n-th step whose logits have a bias.
class PoisonedRow final : public CallObserver {
 public:
  PoisonedRow(int step, int64_t row) : left_(step), row_(row) {}
  bool before_call(const Node& node, const Context&, std::span<const OptView> args) override {
    if (node.info().name != "logit_penalties" || --left_ != 0) return true;
    const View& logits = *args[0];
    poisoned = row_ < logits.size(0);
    if (poisoned)
      std::fill_n(logits.ptr<float>() + row_ * logits.stride(0), logits.size(1),
                  std::numeric_limits<float>::quiet_NaN());
    return true;
  }
  bool poisoned = false;

 private:
  int left_;
  int64_t row_;
};

TEST(SpeculationTest, AnErrorComesAfterTheTokensBeforeIt) {
  Speculation s("tiny-llama");
  Request r = s.request(1, 8, 100);
  r.sampling.logit_bias = {{11, 1000.0f}};
  for (int64_t row : {0, 2, 4}) {
    PoisonedRow poison(3, row);
    const Spoken spoken = s.run({.speculative = kGuess}, {r}, &poison)[0];
    EXPECT_TRUE(poison.poisoned);
    EXPECT_EQ(spoken.finish, FinishReason::kError);
    EXPECT_NE(spoken.error.find("NaN"), std::string::npos) << spoken.error;
    EXPECT_EQ(spoken.tokens, std::vector<int64_t>(static_cast<size_t>(1 + 5 + row), 11)) << row;
  }
}

TEST(SpeculationTest, NobodyLooksAtWhatFollowsAWrongGuess) {
  Speculation s("tiny-llama");
  const Request r = s.repetitive(7, 30, 40);
  const std::vector<int64_t> plain = s.run({}, {r})[0].tokens;
  int unseen = 0;
  for (int step = 1; step < 20; ++step) {
    PoisonedRow poison(step, 4);
    const Spoken spoken = s.run({.speculative = kGuess}, {r}, &poison)[0];
    if (!poison.poisoned) continue;
    unseen += spoken.error.empty() ? 1 : 0;
    EXPECT_TRUE(std::equal(spoken.tokens.begin(), spoken.tokens.end(), plain.begin())) << step;
    EXPECT_EQ(spoken.tokens.size() == plain.size(), spoken.error.empty()) << step;
  }
  EXPECT_GT(unseen, 0);
}

}  // namespace
}  // namespace fk
