// The logits of a model's last tokens, for comparing two checkpoints of one model.
#pragma once

#include <string>
#include <vector>

#include "core/thread_pool.h"
#include "engine/model_executor.h"
#include "models/resolve.h"

namespace fk {

// Of a prompt, and of one token more.
inline std::vector<float> logits_of_model(const std::string& path, DType dtype = DType::kF32,
                                          Communicator* ranks = nullptr) {
  ThreadPool pool(ranks == nullptr ? 2 : 1);
  Model model = load_model(resolve_model(path), {.dtype = dtype, .communicator = ranks}, pool);
  const int64_t vocab = model.config.facts.vocab_size;
  ModelExecutor executor(model, pool, {.max_sequences = 1, .max_context = 64});
  RunningSequence sequence = executor.start();
  std::vector<int64_t> prompt;
  for (int64_t i = 0; i < 19; ++i) prompt.push_back((11 * i + 5) % vocab);
  std::vector<float> all;
  auto keep = [&](const View& logits) { all.insert(all.end(), logits.ptr<float>(), logits.ptr<float>() + vocab); };
  keep(executor.prefill(sequence, prompt));
  int64_t next = 42;
  const NewTokens item{&sequence, {&next, 1}};
  keep(executor.forward({&item, 1}));
  return all;
}

}  // namespace fk
