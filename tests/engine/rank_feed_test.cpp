// Ranks that share requests: the first one gets them at any time, from any thread, and all plan the same steps,
// whatever is cancelled, late or refused by its client.
#include "engine/rank_feed.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <limits>
#include <thread>

#include "core/error.h"
#include "core/rng.h"
#include "engine/batching_engine.h"
#include "tests/core/on_ranks.h"

namespace fk {
namespace {

TEST(RankFeed, NewsArriveAsTheyWereTold) {
  RankNews news;
  Request r;
  r.prompt = {1, -2, int64_t{1} << 40};
  r.max_tokens = 77;
  r.sampling = {.temperature = 0.7, .top_k = 5, .top_p = 0.25, .min_p = 0.125, .seed = ~uint64_t{0}};
  r.sampling.repetition_penalty = 1.5;
  r.sampling.presence_penalty = -0.5;
  r.sampling.frequency_penalty = 0.75;
  r.sampling.logit_bias = {{3, 1.5f}, {9, -100.0f}};
  r.stop_tokens = {4, 5};
  r.stop = {"", "###", std::string("a\0b", 3)};
  r.ignore_eos = true;
  r.min_tokens = 6;
  r.logprobs = 0;
  r.prompt_logprobs = 4;
  r.skip_special_tokens = false;
  news.events = {{7, FinishReason::kNone, r}, {8, FinishReason::kCancelled, {}}, {9, FinishReason::kTimeout, {}}};
  const RankNews got = unpack_news(pack_news(news));
  ASSERT_EQ(got.events.size(), 3u);
  EXPECT_FALSE(got.over);
  EXPECT_EQ(got.events[1].id, 8u);
  EXPECT_EQ(got.events[1].end, FinishReason::kCancelled);
  EXPECT_EQ(got.events[2].end, FinishReason::kTimeout);
  const Request& q = got.events[0].request;
  EXPECT_EQ(q.prompt, r.prompt);
  EXPECT_EQ(q.max_tokens, 77);
  EXPECT_EQ(q.sampling.temperature, 0.7);
  EXPECT_EQ(q.sampling.top_k, 5);
  EXPECT_EQ(q.sampling.top_p, 0.25);
  EXPECT_EQ(q.sampling.min_p, 0.125);
  EXPECT_EQ(q.sampling.seed, ~uint64_t{0});
  EXPECT_EQ(q.sampling.repetition_penalty, 1.5);
  EXPECT_EQ(q.sampling.presence_penalty, -0.5);
  EXPECT_EQ(q.sampling.frequency_penalty, 0.75);
  EXPECT_EQ(q.sampling.logit_bias, r.sampling.logit_bias);
  EXPECT_EQ(q.stop_tokens, r.stop_tokens);
  EXPECT_EQ(q.stop, r.stop);
  EXPECT_TRUE(q.ignore_eos);
  EXPECT_EQ(q.min_tokens, 6);
  EXPECT_EQ(q.logprobs, 0) << "whether a step waits for the host depends on it";
  EXPECT_EQ(q.prompt_logprobs, 4) << "how prompts are cut depends on it";
  EXPECT_FALSE(q.skip_special_tokens);
  EXPECT_TRUE(unpack_news(pack_news({.events = {}, .over = true})).over);
}

TEST(RankFeed, LongNewsReachEveryRank) {
  on_ranks(3, [](Communicator& ranks) {
    RankFeed feed(ranks);
    for (int64_t length : {0, 1, 200, 250, 256, 300, 5000, 100'000}) {
      RankNews news;
      news.events.resize(1);
      for (int64_t i = 0; i < length; ++i) news.events[0].request.prompt.push_back(i * i);
      if (feed.leads())
        feed.tell(news);
      else
        EXPECT_EQ(feed.ask().events.at(0).request.prompt, news.events[0].request.prompt);
    }
  });
}

struct Heard {
  std::vector<int64_t> tokens;
  FinishReason finish = FinishReason::kNone;
  std::promise<void> ended;
  std::atomic<bool> cancelled = false;
};

Model load(const char* name, ThreadPool& pool, Communicator* ranks) {
  return load_model(resolve_model(name),
                    {.format = LoadFormat::kDummy, .dtype = DType::kF32, .seed = 3, .communicator = ranks}, pool);
}

Request request(const Model& model, int64_t i) {
  Request r;
  for (int64_t t = 0; t < 3 + 5 * (i % 6); ++t) r.prompt.push_back((7 * i + 3 * t * t) % model.config.facts.vocab_size);
  r.max_tokens = 5 + 4 * (i % 5);
  if (i % 3 == 1) r.sampling = {.temperature = 0.9, .seed = static_cast<uint64_t>(i)};
  if (i % 3 == 2) r.sampling.repetition_penalty = 1.2;
  return r;
}

const BatchingOptions kSmall{.max_num_seqs = 3, .max_num_batched_tokens = 9, .block_size = 4, .num_blocks = 30};

// Ranks, and whether steps are started before the tokens of the one before are known.
class SharedRequests : public testing::TestWithParam<std::pair<int, bool>> {};

TEST_P(SharedRequests, AreAnsweredAsByOneRank) {
  constexpr int64_t kRequests = 24;
  std::vector<std::vector<int64_t>> alone(kRequests);
  {
    ThreadPool pool(1);
    Model model = load("tiny-llama", pool, nullptr);
    BatchingEngine engine(model, pool, std::nullopt, {});
    for (int64_t i = 0; i < kRequests; ++i) {
      engine.submit(request(model, i), [&alone, i](const RequestOutput& output) {
        std::vector<int64_t>& to = alone[static_cast<size_t>(i)];
        to.insert(to.end(), output.tokens.begin(), output.tokens.end());
      });
      engine.run_until_idle();
    }
  }
  on_ranks(GetParam().first, [&](Communicator& ranks) {
    ThreadPool pool(1);
    Model model = load("tiny-llama", pool, &ranks);
    BatchingOptions options = kSmall;
    options.run_ahead = GetParam().second;
    if (GetParam().first == 4)
      options.speculative = {.num_speculative_tokens = 3, .prompt_lookup_max = 2, .prompt_lookup_min = 1};
    BatchingEngine engine(model, pool, std::nullopt, options);
    engine.share_requests(ranks);
    if (ranks.rank() > 0) return engine.follow();
    engine.start();
    std::vector<Heard> heard(kRequests);
    auto ask = [&](int64_t from, int64_t to) {
      Stream random(static_cast<uint64_t>(from), "clients");
      for (int64_t i = from; i < to; ++i) {
        Request r = request(model, i);
        if (i % 8 == 7) r.deadline = std::chrono::steady_clock::now();
        if (i % 8 == 6) r.max_tokens = 80;  // more than one step
        Heard& own = heard[static_cast<size_t>(i)];
        auto sink = [&own, i](const RequestOutput& output) {
          own.tokens.insert(own.tokens.end(), output.tokens.begin(), output.tokens.end());
          if (output.finish != FinishReason::kNone) {
            own.finish = output.finish;
            own.ended.set_value();
          } else if (i % 8 == 5) {
            throw Error("This client takes nothing.");
          } else if (i % 8 == 6) {
            own.cancelled.wait(false);  // however late its client comes to that
          }
        };
        RequestId id = engine.submit(std::move(r), sink);
        if (i % 8 == 6) {
          engine.cancel(id);
          own.cancelled = true;
          own.cancelled.notify_one();
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(random.below(static_cast<uint64_t>(i), 8)));
      }
    };
    std::thread other([&] { ask(0, kRequests / 2); });
    ask(kRequests / 2, kRequests);
    other.join();
    for (int64_t i = 0; i < kRequests; ++i) {
      Heard& own = heard[static_cast<size_t>(i)];
      own.ended.get_future().wait();
      const std::vector<int64_t>& all = alone[static_cast<size_t>(i)];
      if (i % 8 < 5)
        EXPECT_EQ(own.tokens, all) << i;
      else
        EXPECT_EQ(own.finish, i % 8 == 7 ? FinishReason::kTimeout : FinishReason::kCancelled) << i;
    }
    engine.stop();
    EXPECT_EQ(engine.failure(), "");
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, SharedRequests,
                         testing::Values(std::pair(2, false), std::pair(2, true), std::pair(4, false)));

TEST(RankFeed, StoppingEndsTheOthersInTheMiddleOfARequest) {
  on_ranks(2, [](Communicator& ranks) {
    ThreadPool pool(1);
    Model model = load("tiny-llama", pool, &ranks);
    BatchingEngine engine(model, pool, std::nullopt, {});
    engine.share_requests(ranks);
    if (ranks.rank() > 0) return engine.follow();
    engine.start();
    Request r = request(model, 0);
    r.max_tokens = 500;
    std::promise<void> first;
    FinishReason finish = FinishReason::kNone;
    bool begun = false;
    engine.submit(r, [&](const RequestOutput& output) {
      if (!std::exchange(begun, true)) first.set_value();
      finish = output.finish;
    });
    first.get_future().wait();
    engine.stop();
    EXPECT_EQ(finish, FinishReason::kCancelled);
    EXPECT_EQ(engine.failure(), "");
  });
}

TEST(RankFeed, ALostRankEndsAllRequestsWithItsSentence) {
  on_ranks(2, [](Communicator& ranks) {
    ThreadPool pool(1);
    Model model = load("tiny-llama", pool, &ranks);
    BatchingEngine engine(model, pool, std::nullopt, {});
    engine.share_requests(ranks);
    if (ranks.rank() > 0) {
      for (int i = 0; i < 5; ++i) engine.step();
      return;  // its communicator goes with it
    }
    std::promise<void> failed;
    engine.start([&] { failed.set_value(); });
    Heard heard;
    Request r = request(model, 0);
    r.max_tokens = 400;
    std::string error;
    engine.submit(r, [&](const RequestOutput& output) {
      error += output.error;
      if (output.finish != FinishReason::kNone) heard.ended.set_value();
    });
    heard.ended.get_future().wait();
    failed.get_future().wait();
    engine.stop();
    EXPECT_EQ(error, engine.failure());
    EXPECT_NE(error, "");
    EXPECT_THROW(engine.submit(request(model, 1), {}), Error);
  });
}

}  // namespace
}  // namespace fk
