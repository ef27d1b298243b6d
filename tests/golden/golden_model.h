// A tiny model of tests/golden/data, with what transformers computes for it, and ways to run it here.
#pragma once

#include <string>
#include <vector>

#include "core/json.h"
#include "core/thread_pool.h"
#include "engine/model.h"
#include "engine/model_executor.h"

namespace fk::golden {

std::vector<std::string> model_names();

struct Case {
  std::string name;
  std::vector<std::vector<int64_t>> prompts;
  std::vector<std::vector<double>> logits;               // of each prompt's last token
  std::vector<std::vector<int64_t>> argmax;              // of every position; empty in `greedy`
  std::vector<std::vector<double>> max_logit;            // of every position
  std::vector<std::vector<double>> logits_bf16_weights;  // in float64, over weights rounded to bf16; may be empty
  std::vector<std::vector<int64_t>> tokens;              // `greedy`: what follows the prompt
};

struct Golden {
  explicit Golden(const std::string& name);

  Model load(DType dtype, ThreadPool& pool) const;
  const Case* find(const std::string& case_name) const;

  ModelSource source;
  uint64_t seed = 0;
  double largest_bf16_error = 0;  // of transformers in bf16, relative to the largest logit
  double largest_f16_error = 0;   // the same in f16, the rounding of the weights included
  std::vector<Case> cases;
};

// Largest difference, relative to the largest expected number; infinity where anything is not finite.
double relative_error(const std::vector<double>& expected, const float* actual);

// All prompts in one pass, one pass each, or in chunks of a few tokens: logits of the last tokens, [prompts][V].
std::vector<std::vector<float>> run_batched(ModelExecutor& executor, const std::vector<std::vector<int64_t>>& prompts);
std::vector<float> run_alone(ModelExecutor& executor, const std::vector<int64_t>& prompt);

}  // namespace fk::golden
