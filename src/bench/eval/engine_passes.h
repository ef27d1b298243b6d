// EnginePasses: what is timed of a language model: all requests of a pass through the engine that serves models.
#pragma once

#include <cstdint>

#include "bench/eval/sequences.h"
#include "engine/batching_engine.h"

namespace fk {

class EnginePasses {
 public:
  EnginePasses(const Model& model, ThreadPool& pool, int64_t max_num_seqs, int64_t max_model_len);

  // Submits all prompts at once and waits for `steps` tokens of each. Throws Error where a request ends early.
  TokenRows run(const TokenRows& prompts, int64_t steps);

 private:
  BatchingEngine engine_;
};

}  // namespace fk
