#include "tests/serve/scripted_engine.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>
#include <utility>

namespace fk {

ScriptedEngine::ScriptedEngine() {
  limits_.max_model_len = 128;
  limits_.max_num_seqs = 8;
  limits_.max_waiting = 8;
  limits_.vocab_size = 300;
}

RequestOutput words(const Request& request, int64_t first, int64_t count, FinishReason finish) {
  RequestOutput output;
  for (size_t i = 1; first == 0 && request.prompt_logprobs && i < request.prompt.size(); ++i) {
    DrawnLogprobs one{.drawn = {request.prompt[i], -2.5F}, .rank = 7, .top = {}};
    for (int k = 0; k < *request.prompt_logprobs; ++k) one.top.push_back({200 + k, -1.0F - static_cast<float>(k)});
    output.prompt_logprobs.push_back(one);
  }
  for (int64_t i = first; i < first + count; ++i) {
    output.tokens.push_back(100 + i % 20);
    output.text += fmt::format("w{} ", i);
    if (request.logprobs) {
      DrawnLogprobs drawn{.drawn = {100 + i % 20, -0.5F}, .top = {}};
      for (int k = 0; k < *request.logprobs; ++k)
        drawn.top.push_back({100 + i % 20 + k, -0.5F - static_cast<float>(k)});
      output.logprobs.push_back(drawn);
    }
  }
  output.finish = finish;
  return output;
}

RequestId ScriptedEngine::submit(Request request, OutputSink sink) {
  if (before_submit) before_submit(request);
  OutputSink copy = sink;
  RequestId id = 0;
  {
    std::lock_guard lock(mutex_);
    id = requests_.size() + 1;
    requests_.push_back({id, request, std::move(sink), answers});
  }
  changed_.notify_all();
  if (answers) {
    if (request.max_tokens == 0) copy(words(request, 0, 0, FinishReason::kLength));
    for (int64_t i = 0; i < request.max_tokens; ++i) {
      RequestOutput output =
          words(request, i, 1, i + 1 == request.max_tokens ? FinishReason::kLength : FinishReason::kNone);
      output.id = id;
      copy(std::move(output));
    }
  }
  return id;
}

void ScriptedEngine::cancel(RequestId id) {
  OutputSink sink;
  {
    std::lock_guard lock(mutex_);
    Held& held = requests_[id - 1];
    if (held.ended) return;
    held.ended = true;
    sink = held.sink;
    ++cancelled_;
  }
  RequestOutput output;
  output.id = id;
  output.finish = FinishReason::kCancelled;
  sink(std::move(output));
  changed_.notify_all();
}

EngineStats ScriptedEngine::stats() const {
  std::lock_guard lock(mutex_);
  EngineStats stats;
  for (const Held& held : requests_) stats.running += held.ended ? 0 : 1;
  stats.blocks_total = 10;
  stats.blocks_used = 5;
  stats.generated_tokens = 42;
  stats.draft_tokens = 9;
  return stats;
}

void ScriptedEngine::wait(const std::function<bool()>& done) const {
  std::unique_lock lock(mutex_);
  ASSERT_TRUE(changed_.wait_for(lock, std::chrono::minutes(5), done));
}
void ScriptedEngine::wait_for_requests(size_t count) const {
  wait([&] { return requests_.size() >= count; });
}
void ScriptedEngine::wait_for_cancelled(size_t count) const {
  wait([&] { return cancelled_ >= count; });
}

Request ScriptedEngine::request(size_t index) const {
  wait_for_requests(index + 1);
  std::lock_guard lock(mutex_);
  return requests_.at(index).request;
}

void ScriptedEngine::push(size_t index, RequestOutput output) const {
  wait_for_requests(index + 1);
  OutputSink sink;
  {
    std::lock_guard lock(mutex_);
    sink = requests_.at(index).sink;
    output.id = requests_.at(index).id;
  }
  sink(std::move(output));
}

}  // namespace fk
