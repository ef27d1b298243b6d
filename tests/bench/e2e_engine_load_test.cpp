// A load on an engine is complete, timed by request, and waits where the engine's queue is full.
#include "bench/e2e/engine_load.h"

#include <gtest/gtest.h>

#include <deque>

namespace fk {
namespace {

// Gives every running request one token a step; runs at most two requests at once and queues as many.
class ScriptedEngine final : public Engine {
 public:
  RequestId submit(Request request, OutputSink sink) override {
    if (requests_.size() == 4) throw QueueFull("The queue is full.");
    requests_.push_back({++last_, std::move(request), std::move(sink), 0});
    return last_;
  }
  void cancel(RequestId) override {}
  EngineStats stats() const override { return {}; }
  const EngineLimits& limits() const override { return limits_; }

  bool step() {
    for (size_t i = 0; i < std::min<size_t>(2, requests_.size());) {
      Running& r = requests_[i];
      RequestOutput output;
      output.id = r.id;
      output.tokens = {7};
      if (++r.drawn == r.request.max_tokens) output.finish = FinishReason::kLength;
      if (r.request.prompt[0] == 13) {
        output.finish = FinishReason::kError;
        output.error = "the logits are not finite";
      }
      bool ended = output.finish != FinishReason::kNone;
      r.sink(std::move(output));
      if (ended)
        requests_.erase(requests_.begin() + static_cast<std::ptrdiff_t>(i));
      else
        ++i;
    }
    return !requests_.empty();
  }

 private:
  struct Running {
    RequestId id;
    Request request;
    OutputSink sink;
    int64_t drawn;
  };
  std::deque<Running> requests_;
  RequestId last_ = 0;
  EngineLimits limits_;
};

BenchRequest prompt_of(int64_t token, int64_t output_len) {
  BenchRequest request;
  request.prompt_tokens = {token, token};
  request.output_len = output_len;
  return request;
}

TEST(EngineLoad, IsCompleteWhereTheQueueIsFull) {
  ScriptedEngine engine;
  std::vector<BenchRequest> requests;
  for (int64_t i = 0; i < 9; ++i) requests.push_back(prompt_of(i, 1 + i % 3));
  ServedLoad load = run_on_engine(engine, requests, [&] { return engine.step(); });
  ASSERT_EQ(load.requests.size(), 9u);
  double last = 0;
  for (size_t i = 0; i < 9; ++i) {
    const RequestTiming& r = load.requests[i];
    EXPECT_EQ(r.output_tokens, requests[i].output_len);
    EXPECT_EQ(r.itl_s.size() + 1, static_cast<size_t>(r.output_tokens));
    EXPECT_GT(r.ttft_s, 0);
    EXPECT_GE(r.e2el_s, r.ttft_s);
    last = std::max(last, r.e2el_s);
  }
  EXPECT_DOUBLE_EQ(load.duration_s, last);
  EXPECT_EQ(serving_metrics(load.requests, load.duration_s).output_tokens, 18);
}

TEST(EngineLoad, ARequestThatFailsEndsIt) {
  ScriptedEngine engine;
  try {
    run_on_engine(engine, {prompt_of(1, 2), prompt_of(13, 2)}, [&] { return engine.step(); });
    FAIL();
  } catch (const Error& e) {
    EXPECT_STREQ(e.what(), "Request 2 of 2 failed: the logits are not finite.");
  }
}

}  // namespace
}  // namespace fk
