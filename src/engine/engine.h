// Engine: takes requests from any thread and answers them token by token. BatchingEngine is the real one; tests of the
// server have one that answers from a script.
#pragma once

#include <cstdint>

#include "core/error.h"
#include "engine/request.h"

namespace fk {

// Limits that a request is checked against before it is queued.
struct EngineLimits {
  int64_t max_model_len = 0;      // tokens of prompt and output together
  int64_t max_num_seqs = 0;       // requests that run at the same time
  int64_t max_cached_tokens = 0;  // tokens that the KV cache holds
  int64_t max_waiting = 0;        // requests that may wait
  int64_t vocab_size = 0;
};

// Counters since the start, and the present state.
struct EngineStats {
  int64_t running = 0;
  int64_t waiting = 0;
  int64_t blocks_used = 0;  // of the KV cache, by running requests
  int64_t blocks_total = 0;
  int64_t prompt_tokens = 0;         // processed or found in the prefix cache
  int64_t cached_prompt_tokens = 0;  // of these, found in the prefix cache
  int64_t generated_tokens = 0;
  int64_t preemptions = 0;
  int64_t drafts = 0;           // steps of a request with guesses of its next tokens
  int64_t draft_tokens = 0;     // these guesses
  int64_t accepted_tokens = 0;  // of them, those that were what the model drew
  int64_t finished = 0;         // for whatever reason
  int64_t steps = 0;
  int64_t compiled_steps = 0;  // of these, those that a plan ran in the place of the model's tree
  double step_seconds = 0;  // sum over all steps
  double host_seconds = 0;  // of these, planning, sampling on the host and output
};

// The queue is full: a server answers 429.
class QueueFull : public Error {
 public:
  using Error::Error;
};

class Engine {
 public:
  virtual ~Engine() = default;

  // Queues a request. Throws UsageError with the numbers where it can never run (empty prompt, more tokens than the
  // context or the cache has, a token outside the vocabulary), and QueueFull.
  virtual RequestId submit(Request request, OutputSink sink) = 0;
  // Nothing happens if it has ended.
  virtual void cancel(RequestId id) = 0;

  virtual EngineStats stats() const = 0;
  virtual const EngineLimits& limits() const = 0;
};

}  // namespace fk
