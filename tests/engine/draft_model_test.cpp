// Guesses by a draft model: tokens are those without it, for targets and drafts of all families, and a draft that is
// the target is always right: after preemptions, with shared pages, under sampling, beside requests that end or leave.
#include "engine/draft_model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "core/error.h"
#include "engine/batching_engine.h"
#include "models/catalog.h"
#include "tests/engine/representative_models.h"
#include "tests/engine/spoken.h"

namespace fk {
namespace {

constexpr SpeculativeOptions kDraft{.num_speculative_tokens = 4, .method = SpeculativeMethod::kDraftModel};

Model tiny_model(const std::string& name, ThreadPool& pool, uint64_t seed = 5) {
  return load_model(resolve_model(name), {.format = LoadFormat::kDummy, .dtype = DType::kF32, .seed = seed}, pool);
}

class Drafted {
 public:
  explicit Drafted(const std::string& target) : pool_(1), target_(tiny_model(target, pool_)) {}

  ThreadPool& pool() { return pool_; }
  Model& target() { return target_; }

  Request request(int64_t first, int64_t prompt_tokens, int64_t max_tokens) const {
    Request r;
    for (int64_t i = 0; i < prompt_tokens; ++i)
      r.prompt.push_back((first + 31 * i + i * i) % target_.config.facts.vocab_size);
    r.max_tokens = max_tokens;
    return r;
  }
  // Of 9 and more tokens in the prompt, each `further` more than the one before.
  std::vector<Request> various(int64_t further = 12, int64_t max_tokens = 30) const {
    std::vector<Request> requests;
    for (int64_t i = 0; i < 5; ++i) requests.push_back(request(3 + 7 * (i / 2), 9 + further * i, max_tokens));
    requests[3].sampling.temperature = 0.9;
    requests[3].sampling.seed = 4;
    requests.push_back(request(1, 1, max_tokens / 3 * 2));
    return requests;
  }

  // draft: nullptr for none.
  std::vector<Spoken> run(BatchingOptions options, const std::vector<Request>& requests, const Model* draft) {
    if (draft != nullptr && options.speculative.num_speculative_tokens == 0) options.speculative = kDraft;
    BatchingEngine engine(target_, pool_, std::nullopt, options, draft);
    std::vector<Spoken> results = run(engine, requests);
    stats_ = engine.stats();
    EXPECT_EQ(stats_.blocks_used, 0);
    return results;
  }
  static std::vector<Spoken> run(BatchingEngine& engine, const std::vector<Request>& requests) {
    std::vector<Spoken> results(requests.size());
    for (size_t i = 0; i < requests.size(); ++i)
      engine.submit(requests[i], [&results, i](RequestOutput output) { results[i].add(std::move(output)); });
    engine.run_until_idle();
    for (const Spoken& result : results) EXPECT_EQ(result.ends, 1);
    return results;
  }

  const EngineStats& stats() const { return stats_; }
  // Sums over rows of another number round differently, so that two tokens may now and then change places.
  void expect_nearly_all_right() const { expect_nearly_all_right(stats_); }
  static void expect_nearly_all_right(const EngineStats& stats) {
    EXPECT_GT(stats.draft_tokens, 0);
    EXPECT_GE(static_cast<double>(stats.accepted_tokens), 0.97 * static_cast<double>(stats.draft_tokens))
        << stats.accepted_tokens << " of " << stats.draft_tokens;
  }

 private:
  ThreadPool pool_;
  Model target_;
  EngineStats stats_;
};

bool recurrent(const std::string& name) { return has_recurrent_states(*build_model(resolve_model(name).config, {})); }

struct Pair {
  std::string target, draft;
};

// Every tiny model, with another one of its vocabulary if there is one.
std::vector<Pair> tiny_pairs() {
  std::map<int64_t, std::vector<std::string>> by_vocabulary;
  for (const CatalogEntry& entry : catalog())
    if (entry.name.starts_with("tiny-") && entry.config.facts.task == Task::kCausalLM)
      by_vocabulary[entry.config.facts.vocab_size].push_back(entry.name);
  std::vector<Pair> pairs;
  for (const auto& [size, names] : by_vocabulary)
    for (size_t i = 0; i < names.size(); ++i) pairs.push_back({names[i], names[(i + 1) % names.size()]});
  return pairs;
}

class DraftOfModels : public testing::TestWithParam<Pair> {};

TEST_P(DraftOfModels, DrawsTheTokensOfTheTarget) {
  Drafted s(GetParam().target);
  const Model draft = tiny_model(GetParam().draft, s.pool(), 6);
  if (recurrent(GetParam().target)) {
    try {
      s.run({}, {}, &draft);
      FAIL() << "recurrent states cannot go back";
    } catch (const UsageError& e) {
      EXPECT_NE(std::string(e.what()).find("recurrent states"), std::string::npos) << e.what();
    }
    return;
  }
  const std::vector<Request> requests = s.various(6, 15);  // past every window of these models
  const std::vector<Spoken> plain = s.run({}, requests, nullptr);
  expect_same(s.run({}, requests, &draft), plain);
  EXPECT_GT(s.stats().draft_tokens, 0);
  // Few tokens in a step, small pages, and so few of them that requests wait for each other.
  const BatchingOptions tight{.max_num_seqs = 4,
                              .max_num_batched_tokens = 9,
                              .block_size = 4,
                              .num_blocks = 20,
                              .run_ahead = true,
                              .speculative = {.num_speculative_tokens = 7, .method = SpeculativeMethod::kDraftModel}};
  expect_same(s.run(tight, requests, &draft), plain);
  expect_same(s.run(tight, requests, &s.target()), plain);
}

const std::string& target_of(const Pair& pair) { return pair.target; }
std::string name_of_pair(const testing::TestParamInfo<Pair>& test) {
  std::string name = test.param.target.substr(5) + "_by_" + test.param.draft.substr(5);
  std::replace_if(
      name.begin(), name.end(), [](char c) { return !std::isalnum(static_cast<unsigned char>(c)); }, '_');
  return name;
}
INSTANTIATE_TEST_SUITE_P(Models, DraftOfModels, testing::ValuesIn(part_of_sweep(tiny_pairs(), true, target_of)),
                         name_of_pair);
INSTANTIATE_TEST_SUITE_P(SlowModels, DraftOfModels, testing::ValuesIn(part_of_sweep(tiny_pairs(), false, target_of)),
                         name_of_pair);

void expect_right_guesses_of_itself(std::initializer_list<const char*> names) {
  for (const char* name : names) {
    SCOPED_TRACE(name);
    Drafted s(name);
    const std::vector<Request> requests = s.various();
    const std::vector<Spoken> plain = s.run({}, requests, nullptr);
    const int64_t steps = s.stats().steps;
    expect_same(s.run({}, requests, &s.target()), plain);
    s.expect_nearly_all_right();
    EXPECT_LT(s.stats().steps, steps / 3) << "five tokens in most steps";
    const BatchingOptions small{.max_num_batched_tokens = 11, .block_size = 4, .num_blocks = 52};
    expect_same(s.run(small, requests, &s.target()), plain);
    s.expect_nearly_all_right();
    const std::vector<Request> longer = {s.request(3, 9, 110), s.request(4, 21, 110), s.request(5, 33, 110)};
    expect_same(s.run(small, longer, &s.target()), s.run({}, longer, nullptr));
    s.run(small, longer, &s.target());
    EXPECT_EQ(s.stats().preemptions > 0, std::string(name) != "tiny-mistral-window") << "windows need few pages";
    s.expect_nearly_all_right();
  }
}

TEST(DraftModelTest, ADraftThatIsTheTargetIsRight) {
  expect_right_guesses_of_itself({"tiny-llama", "tiny-mistral-window"});
}
TEST(DraftModelTest, SlowADraftThatIsTheTargetIsRight) {
  expect_right_guesses_of_itself({"tiny-gemma3", "tiny-deepseek-v3", "tiny-mixtral"});
}

TEST(DraftModelTest, AnotherModelIsSeldomRight) {
  Drafted s("tiny-llama");
  const Model draft = tiny_model("tiny-llama", s.pool(), 6);
  s.run({}, s.various(), &draft);
  EXPECT_GT(s.stats().draft_tokens, 0);
  EXPECT_LT(s.stats().accepted_tokens, s.stats().draft_tokens / 2);
}

// The draft draws with the random numbers of the target.
TEST(DraftModelTest, IsRightUnderSampling) {
  Drafted s("tiny-llama");
  std::vector<Request> requests(4, s.request(3, 20, 40));
  for (size_t i = 0; i < requests.size(); ++i) {
    requests[i].sampling.temperature = 0.7 + 0.2 * static_cast<double>(i);
    requests[i].sampling.seed = i;
    requests[i].sampling.top_p = 0.95;
  }
  requests[3].sampling.logit_bias = {{20, 4.0f}, {21, 4.0f}};
  const std::vector<Spoken> plain = s.run({}, requests, nullptr);
  EXPECT_NE(plain[0].tokens, plain[1].tokens);
  expect_same(s.run({}, requests, &s.target()), plain);
  s.expect_nearly_all_right();
}

// A request that is not guessed leaves pages that the draft has not computed; one whose last guess was right ends with
// a page that lacks its last token.
TEST(DraftModelTest, ComputesSharedPagesThatItHasNotSeen) {
  Drafted s("tiny-llama");
  BatchingEngine engine(s.target(), s.pool(), std::nullopt, {.block_size = 4, .speculative = kDraft}, &s.target());
  Request unguessed = s.request(3, 60, 12);
  unguessed.sampling.repetition_penalty = 1.3;
  Drafted::run(engine, {unguessed});
  EXPECT_EQ(engine.stats().draft_tokens, 0);
  Request next = s.request(3, 60, 40);
  for (int turn = 0; turn < 4; ++turn) {
    const Spoken spoken = Drafted::run(engine, {next})[0];
    EXPECT_EQ(s.run({}, {next}, nullptr)[0].tokens, spoken.tokens);
    next.prompt.insert(next.prompt.end(), spoken.tokens.begin(), spoken.tokens.end());
    next.prompt.push_back(7 + turn);
    next.max_tokens += 1;
  }
  EXPECT_GT(engine.stats().cached_prompt_tokens, 300);
  Drafted::expect_nearly_all_right(engine.stats());
  // Requests that arrive together share what they begin with in the step that computes it.
  std::vector<Request> together(3, s.request(9, 33, 20));
  together[1].prompt.push_back(5);
  together[2].prompt.resize(30);
  const std::vector<Spoken> spoken = Drafted::run(engine, together);
  expect_same(spoken, s.run({}, together, nullptr));
  Drafted::expect_nearly_all_right(engine.stats());
}

// Requests of one prompt that begin in one step share pages that no draft has computed: the first of them computes them
// for all, in one pass or in several.
TEST(DraftModelTest, RequestsThatBeginTogetherShareUnseenPages) {
  for (int64_t tokens : {2048, 70, 11}) {
    SCOPED_TRACE(tokens);
    Drafted s("tiny-llama");
    BatchingEngine engine(s.target(), s.pool(), std::nullopt,
                          {.max_num_batched_tokens = tokens, .block_size = 4, .speculative = kDraft}, &s.target());
    for (int64_t first : {3, 50}) {
      Request unguessed = s.request(first, 61, 12);
      unguessed.sampling.repetition_penalty = 1.3;
      Drafted::run(engine, {unguessed});
      std::vector<Request> together(3, s.request(first, 61, 30));
      together[1].prompt.resize(58);
      together[2].sampling.temperature = 0.8;
      expect_same(Drafted::run(engine, together), s.run({}, together, nullptr));
    }
    EXPECT_GT(engine.stats().cached_prompt_tokens, 300);
    Drafted::expect_nearly_all_right(engine.stats());
  }
}

// Blocks that the draft filled for one request hold another one's page now, which it has not computed. In a window the
// pages before it are gone, so a draft that has not seen them is wrong at first, and nothing else.
TEST(DraftModelTest, KnowsThatABlockHasAnotherPage) {
  for (const char* name : {"tiny-llama", "tiny-mistral-window"}) {
    SCOPED_TRACE(name);
    Drafted s(name);
    BatchingEngine engine(s.target(), s.pool(), std::nullopt,
                          {.block_size = 4, .num_blocks = 26, .speculative = kDraft}, &s.target());
    for (int64_t first : {3, 4, 5}) {
      Drafted::run(engine, {s.request(first, 60, 40)});
      Request unguessed = s.request(first + 50, 60, 30);
      unguessed.sampling.presence_penalty = 0.5;
      Drafted::run(engine, {unguessed});
      const Request next = s.request(first + 50, 60, 40);
      expect_same(Drafted::run(engine, {next}), s.run({}, {next}, nullptr));
    }
    EXPECT_GT(engine.stats().cached_prompt_tokens, 100);
    if (std::string(name) == "tiny-llama") {
      Drafted::expect_nearly_all_right(engine.stats());
    } else {
      EXPECT_GT(engine.stats().accepted_tokens, engine.stats().draft_tokens / 2);
    }
  }
}

TEST(DraftModelTest, StopsPenaltiesAndLogprobsAreThoseWithoutIt) {
  Drafted s("tiny-qwen3");
  const Request plain = s.request(2, 18, 40);
  const std::vector<int64_t> whole = s.run({}, {plain}, nullptr)[0].tokens;
  std::vector<Request> requests(8, plain);
  requests[0].stop_tokens = {whole[17]};
  requests[1].stop = {"<" + std::to_string(whole[20]) + "><" + std::to_string(whole[21]) + ">"};
  requests[2].sampling.repetition_penalty = 1.2;
  requests[3].sampling.frequency_penalty = 0.5;
  requests[4].min_tokens = 30;
  requests[4].stop_tokens = {whole[3], whole[35]};
  requests[5].logprobs = 3;
  requests[6].prompt_logprobs = 1;
  requests[7].sampling.logit_bias = {{5, 100.0f}};
  for (int64_t max_tokens = 0; max_tokens < 9; ++max_tokens) {
    requests.push_back(plain);
    requests.back().max_tokens = max_tokens;
  }
  const std::vector<Spoken> before = s.run({}, requests, nullptr);
  expect_same(s.run({}, requests, &s.target()), before);
  s.expect_nearly_all_right();
  expect_same(s.run({.max_num_seqs = 3, .run_ahead = true}, requests, &s.target()), before);
  s.expect_nearly_all_right();
  // The same bits in every batch, so nothing may change places.
  const std::vector<Spoken> fixed = s.run({.batch_invariant = true}, requests, nullptr);
  const Model draft = tiny_model("tiny-qwen3", s.pool(), 6);
  expect_same(s.run({.batch_invariant = true}, requests, &draft), fixed);
  s.run({}, {}, nullptr);  // switches it off
  s.run({}, {requests[2], requests[3], requests[4]}, &s.target());
  EXPECT_EQ(s.stats().draft_tokens, 0);
}

TEST(DraftModelTest, RequestsThatLeaveDisturbNobody) {
  Drafted s("tiny-llama");
  const Model recurrent_draft = tiny_model("tiny-gla", s.pool());
  const std::vector<Request> requests = s.various();
  const std::vector<Spoken> plain = s.run({}, requests, nullptr);
  for (const Model* draft : {static_cast<const Model*>(&s.target()), &recurrent_draft}) {
    BatchingEngine engine(s.target(), s.pool(), std::nullopt,
                          {.max_num_seqs = 3, .block_size = 4, .num_blocks = 60, .speculative = kDraft}, draft);
    std::vector<Spoken> results(requests.size());
    std::vector<RequestId> ids;
    for (size_t i = 0; i < requests.size(); ++i) {
      ids.push_back(
          engine.submit(requests[i], [&results, i](RequestOutput output) { results[i].add(std::move(output)); }));
      engine.submit(requests[0], [](RequestOutput) { throw Error("gone"); });
    }
    for (int step = 0; engine.step(); ++step) {
      if (step == 1) engine.cancel(ids[1]);
      if (step == 4) engine.cancel(ids[4]);
    }
    EXPECT_EQ(engine.stats().blocks_used, 0);
    for (size_t i = 0; i < requests.size(); ++i) {
      ASSERT_EQ(results[i].ends, 1);
      const bool cancelled = results[i].finish == FinishReason::kCancelled;
      EXPECT_TRUE(!cancelled || i == 1 || i == 4);
      EXPECT_LE(results[i].tokens.size(), plain[i].tokens.size());
      EXPECT_TRUE(std::equal(results[i].tokens.begin(), results[i].tokens.end(), plain[i].tokens.begin()));
      EXPECT_TRUE(cancelled || results[i].tokens == plain[i].tokens);
    }
  }
}

TEST(DraftModelTest, ARecurrentDraftFollowsPreemptedRequests) {
  Drafted s("tiny-llama");
  const Model draft = tiny_model("tiny-gla", s.pool());
  std::vector<Request> requests;
  for (int64_t i = 0; i < 6; ++i) requests.push_back(s.request(i, 9 + 6 * i, 110 - 7 * i));
  const std::vector<Spoken> plain = s.run({}, requests, nullptr);
  for (int64_t sequences : {2, 3}) {
    expect_same(
        s.run({.max_num_seqs = sequences, .block_size = 4, .num_blocks = 50, .run_ahead = true}, requests, &draft),
        plain);
    EXPECT_GT(s.stats().preemptions, 0);
    EXPECT_GT(s.stats().draft_tokens, 0);
  }
}

// What an engine spends on guesses is time of operators, too.
TEST(DraftModelTest, ItsCallsAreObserved) {
  struct Calls final : CallObserver {
    bool before_call(const Node& node, const Context&, std::span<const OptView>) override {
      ++of[std::string(node.info().name)];
      return true;
    }
    std::map<std::string, int> of;
  };
  Drafted s("tiny-llama");
  const Model draft = tiny_model("tiny-gla", s.pool());
  BatchingEngine engine(s.target(), s.pool(), std::nullopt, {.speculative = kDraft}, &draft);
  Calls calls;
  engine.observe(&calls);
  Drafted::run(engine, {s.request(3, 9, 10)});
  EXPECT_GT(calls.of["llama_for_causal_lm"], 0);
  EXPECT_GT(calls.of["gla_for_causal_lm"], calls.of["llama_for_causal_lm"]);
  engine.observe(nullptr);
  calls.of.clear();
  Drafted::run(engine, {s.request(4, 9, 10)});
  EXPECT_TRUE(calls.of.empty());
}

TEST(DraftModelTest, ABrokenDraftIsWrongAndNothingElse) {
  Drafted s("tiny-llama");
  const std::vector<Request> requests = s.various();
  const std::vector<Spoken> plain = s.run({}, requests, nullptr);
  const Model draft = tiny_model("tiny-llama", s.pool());
  const View norm = draft.weight("model.norm.weight");
  std::fill_n(norm.ptr<float>(), norm.numel(), std::numeric_limits<float>::quiet_NaN());
  expect_same(s.run({}, requests, &draft), plain);
  EXPECT_GT(s.stats().draft_tokens, 0);
}

// Guesses are what the draft says after the text, whatever it guessed before; recurrent states go back, too.
TEST(DraftModelTest, GuessesWhatItWouldSayItself) {
  constexpr int64_t kPage = 4, kBlocks = 16, kGuesses = 3;
  for (const char* name : {"tiny-llama", "tiny-gla", "tiny-rwkv7", "tiny-jamba", "tiny-mamba", "tiny-mistral-window"}) {
    SCOPED_TRACE(name);
    Drafted s(name);
    DraftModel draft(s.target(), s.pool(),
                     {.max_sequences = 2, .max_tokens = 7, .max_context = 64, .page_size = kPage, .blocks = kBlocks});
    const Request request = s.request(5, 19, 30);
    LiveRequest live(1, request, {}, nullptr, s.target().config.facts.vocab_size);
    std::vector<int32_t> blocks(kBlocks);
    for (int32_t i = 0; i < kBlocks; ++i) blocks[static_cast<size_t>(i)] = (7 * i + 3) % kBlocks;
    LiveRequest* const lives[] = {&live};
    int64_t done = 0;
    auto step = [&](int64_t guesses) {
      StepPlan plan;
      PlannedRow row;
      row.request = 1;
      row.first = done;
      row.count = std::ssize(live.tokens()) - done + guesses;
      row.draws = true;
      row.drafts.assign(static_cast<size_t>(guesses), kUnknownGuess);
      row.first_step = done == 0;
      row.blocks = blocks;
      plan.rows.push_back(std::move(row));
      draft.guess(plan, lives);
      done = std::ssize(live.tokens());
      return plan.rows[0].drafts;
    };
    step(0);
    live.add(8, {});
    for (int round = 0; round < 5; ++round) {
      done = std::ssize(live.tokens()) - 1;
      const std::vector<int64_t> guesses = step(kGuesses);
      Request alone;
      alone.prompt.assign(live.tokens().begin(), live.tokens().end());
      alone.max_tokens = kGuesses;
      EXPECT_EQ(guesses, s.run({}, {alone}, nullptr)[0].tokens) << round;
      // All of them right, some of them, or none; and then one more token.
      for (int i = 0; i < round % 4; ++i) live.add(guesses[static_cast<size_t>(i)], {});
      live.add(9 + round, {});
    }
    draft.forget(1);
    draft.forget(1);
  }
}

TEST(DraftModelTest, TheCacheHasRoomForTheStatesOfBoth) {
  Drafted s("tiny-llama");
  BatchingOptions options{.max_num_seqs = 65536, .max_model_len = 512};
  const auto alone = static_cast<double>(engine_sizes(s.target(), options).limits.blocks);
  options.speculative = kDraft;
  const auto both = static_cast<double>(engine_sizes(s.target(), options, &s.target()).limits.blocks);
  EXPECT_NEAR(both / alone, 0.5, 0.1);
}

TEST(DraftModelTest, SaysWhyAModelCannotGuess) {
  auto reason = [](const char* draft, const char* target, const BatchingOptions& options = {}) -> std::string {
    try {
      check_draft_allows(resolve_model(draft), resolve_model(target), options);
      return "";
    } catch (const Error& e) {
      return e.what();
    }
  };
  EXPECT_EQ(reason("tiny-gla", "tiny-llama"), "");
  EXPECT_EQ(reason("tiny-qwen3", "tiny-llama"),
            "--speculative-config: the vocabulary of tiny-qwen3 has 331 tokens and that of tiny-llama has 320; a draft "
            "model needs the same one.");
  for (const char* other : {"tiny-xlm-roberta", "tiny-llada"})
    EXPECT_NE(reason(other, "tiny-llama").find("--speculative-config needs a language model"), std::string::npos);
  EXPECT_EQ(reason("tiny-llama", "tiny-gla"),
            "--speculative-config: tiny-llama has a context of 512 tokens, and a sequence may have 8192; allow fewer "
            "(--max-model-len, --max-tokens) or take another draft model.");
  EXPECT_EQ(reason("tiny-llama", "tiny-gla", {.max_model_len = 512}), "");
}

}  // namespace
}  // namespace fk
