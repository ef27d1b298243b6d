#include "bench/e2e/engine_load.h"

#include <condition_variable>
#include <mutex>

#include "core/error.h"
#include "measure/timer.h"

namespace fk {
namespace {

// What the engine's thread writes and this one reads.
struct LoadState {
  std::mutex mutex;
  std::condition_variable ended_one;
  size_t ended = 0;
  double last_s = 0;
  std::vector<RequestTiming> requests;
};

void note_output(LoadState& state, RequestTiming& timing, double now, const RequestOutput& output) {
  std::lock_guard lock(state.mutex);
  if (!output.tokens.empty()) {
    if (timing.output_tokens == 0)
      timing.ttft_s = now;
    else
      timing.itl_s.push_back(now - timing.e2el_s);
    timing.output_tokens += static_cast<int64_t>(output.tokens.size());
    timing.e2el_s = now;
  }
  timing.cached_tokens = output.cached_tokens;
  if (output.finish == FinishReason::kNone) return;
  if (output.finish == FinishReason::kError) timing.error = output.error;
  if (timing.error.empty() && output.finish != FinishReason::kLength)
    timing.error = fmt::format("it ended after {} tokens with the reason '{}'", timing.output_tokens,
                               output.finish == FinishReason::kStop      ? "stop"
                               : output.finish == FinishReason::kTimeout ? "timeout"
                                                                         : "cancelled");
  ++state.ended;
  state.last_s = now;
  state.ended_one.notify_all();
}

Request engine_request(const BenchRequest& from) {
  Request request;
  request.prompt = from.prompt_tokens;
  request.max_tokens = from.output_len;
  request.ignore_eos = true;
  return request;
}

}  // namespace

ServedLoad run_on_engine(Engine& engine, const std::vector<BenchRequest>& requests, const std::function<bool()>& step) {
  LoadState state;
  state.requests.resize(requests.size());
  Stopwatch watch;
  auto wait_for = [&](size_t count) {
    if (step) {
      while (state.ended < count && step()) {
      }
      return;
    }
    std::unique_lock lock(state.mutex);
    state.ended_one.wait(lock, [&] { return state.ended >= count; });
  };
  for (size_t i = 0; i < requests.size(); ++i) {
    RequestTiming& timing = state.requests[i];
    timing.prompt_tokens = static_cast<int64_t>(requests[i].prompt_tokens.size());
    OutputSink sink = [&state, &timing, &watch](const RequestOutput& output) {
      note_output(state, timing, watch.elapsed_s(), output);
    };
    for (bool queued = false; !queued;) {
      try {
        engine.submit(engine_request(requests[i]), sink);
        queued = true;
      } catch (const QueueFull&) {
        size_t ended = 0;
        {
          std::lock_guard lock(state.mutex);
          ended = state.ended;
        }
        wait_for(std::min(ended + 1, i));  // i: all that were queued
      }
    }
  }
  wait_for(requests.size());
  for (size_t i = 0; i < requests.size(); ++i)
    if (!state.requests[i].succeeded())
      throw Error("Request {} of {} failed: {}.", i + 1, requests.size(), state.requests[i].error);
  if (state.ended < requests.size())
    throw Error("The engine stopped after {} of {} requests.", state.ended, requests.size());
  return {std::move(state.requests), state.last_s};
}

}  // namespace fk
