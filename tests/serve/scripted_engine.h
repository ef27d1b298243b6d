// ScriptedEngine: an engine for tests of the server. It answers by itself with numbered words, or holds requests until
// the test says what they get.
#pragma once

#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "engine/engine.h"

namespace fk {

class ScriptedEngine final : public Engine {
 public:
  // Answers every request at once with "w0 w1 ...", max_tokens words.
  bool answers = true;
  std::function<void(const Request&)> before_submit;  // may throw

  ScriptedEngine();
  RequestId submit(Request request, OutputSink sink) override;
  void cancel(RequestId id) override;
  EngineStats stats() const override;
  const EngineLimits& limits() const override { return limits_; }

  // For tests, from their own thread. They wait for what they need; a test that waits in vain ends after five minutes.
  void wait_for_requests(size_t count) const;
  void wait_for_cancelled(size_t count) const;
  Request request(size_t index) const;                  // in the order of submission
  void push(size_t index, RequestOutput output) const;  // to a held request

 private:
  struct Held {
    RequestId id;
    Request request;
    OutputSink sink;
    bool ended = false;
  };
  void wait(const std::function<bool()>& done) const;

  EngineLimits limits_;
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  std::vector<Held> requests_;
  size_t cancelled_ = 0;
};

RequestOutput words(const Request& request, int64_t first, int64_t count, FinishReason finish);

}  // namespace fk
