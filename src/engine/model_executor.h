// ModelExecutor: owns the KV cache and the memory of a step, and runs forward passes over sequences in that cache.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/memory.h"
#include "engine/model.h"
#include "engine/state_pool.h"
#include "engine/step_batch.h"

namespace fk {

struct EngineOptions {
  int64_t max_sequences = 1;
  int64_t max_context = 2048;            // tokens a sequence may reach, prompt and output together
  int64_t max_step_tokens = 2048;        // tokens of one forward pass; longer prompts are taken in chunks
  int64_t page_size = kDefaultPageSize;  // tokens a block of the per-token states holds
};

// A sequence that is being generated. Created by ModelExecutor::start, ended by ModelExecutor::finish.
struct RunningSequence {
  int64_t length = 0;  // tokens that are in the states
  std::vector<int32_t> blocks;
  int32_t state_slot = -1;  // of the per-sequence states; none before the first tokens
};

// New tokens of one sequence in a step.
struct NewTokens {
  RunningSequence* sequence = nullptr;
  std::span<const int64_t> tokens;
};

class ModelExecutor {
 public:
  // Throws Error with the numbers where the options ask for more than the model's context, or where all the states
  // would need more memory than the device has free.
  ModelExecutor(const Model& model, ThreadPool& pool, const EngineOptions& options);

  RunningSequence start() const;
  void finish(RunningSequence& sequence);

  // Allocates blocks for that many more tokens of the sequence. Throws Error when that is beyond max_context.
  void reserve(RunningSequence& sequence, int64_t new_tokens);

  // One forward pass; row i of the logits belongs to the last new token of item i. Valid until the next pass.
  View forward(std::span<const NewTokens> items);
  // A pass returns before the device has finished; this function waits for it.
  void wait() const;
  // A prompt, in as many passes as max_step_tokens asks for; the logits of its last token, [1, V].
  View prefill(RunningSequence& sequence, std::span<const int64_t> prompt);

  const EngineOptions& options() const { return options_; }
  const Model& model() const { return model_; }
  Context context();
  // Observes every operator call from now on; nullptr: no observer.
  void observe(CallObserver* observer) { observer_ = observer; }
  size_t memory_bytes() const;  // of the states and of the step's arena, as far as reserved

 private:
  const Model& model_;
  ThreadPool& pool_;
  EngineOptions options_;
  StatePool states_;
  StepBatch batch_;
  Tensor logits_;
  Arena arena_;
  std::vector<StepItem> items_;
  CallObserver* observer_ = nullptr;
};

}  // namespace fk
