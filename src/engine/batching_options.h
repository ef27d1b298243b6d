// BatchingOptions: how large the batches and the KV cache of an engine may become. Names are vLLM's.
#pragma once

#include <cstdint>

#include "engine/model.h"
#include "engine/scheduler.h"
#include "engine/step_executor.h"

namespace fk {

struct BatchingOptions {
  int64_t max_num_seqs = 256;             // that run at the same time
  int64_t max_num_batched_tokens = 2048;  // of one step
  int64_t max_model_len = 0;              // tokens of one sequence; 0: the model's context
  int64_t block_size = kDefaultPageSize;  // tokens of a block of the KV cache: a power of two
  // Share of the device's memory that weights, activations and KV cache may take together. On a CPU the cache takes at
  // most this share of the free memory, and at most 4 GiB.
  double gpu_memory_utilization = 0.9;
  int64_t num_blocks = 0;  // of the KV cache; 0: as many as max_num_seqs sequences can fill and memory holds
  bool enable_prefix_caching = true;
  int64_t max_waiting = int64_t{1} << 20;  // requests that may wait
  // Devices compute while the host plans: there the next step is planned and started before the tokens of the present
  // one are known, unless no_run_ahead. run_ahead: on the CPU too, for tests.
  bool run_ahead = false;
  bool no_run_ahead = false;
  bool enforce_eager = false;  // no step is recorded as a graph
  SpeculativeOptions speculative = {};
  // Tokens do not depend on what else is in the batch, to the last bit. For the whole process, from the engine on.
  bool batch_invariant = false;
};

// A model with per-sequence states.
bool has_recurrent_states(const Node& root);

// Throws UsageError that names the option out of range.
void check_batching_options(const BatchingOptions& options);

// The same, and throws Error or UsageError where the model does not allow one: a context that is longer than its own,
// or guesses and fixed sums where it has recurrent states. Reads no weights, so that verbs say it first.
void check_model_allows(const ModelSource& source, const BatchingOptions& options, Device device);
// The same of a draft model that guesses tokens of the target: throws Error or UsageError where it is no language
// model, or no head where the method wants one, or its vocabulary, context or hidden states are not the target's.
void check_draft_allows(const ModelSource& draft, const ModelSource& target, const BatchingOptions& options);

struct EngineSizes {
  StepLimits limits;
  SchedulerOptions scheduler;
};
// What the options come to for a model on its device. Throws Error with the numbers where max_model_len is more than
// the model's context, or where memory has no room for a cache. draft: a second model that guesses, whose states have
// as many blocks; nullptr: none.
EngineSizes engine_sizes(const Model& model, const BatchingOptions& options, const Model* draft = nullptr);

}  // namespace fk
