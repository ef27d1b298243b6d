// A tiny model of tests/golden/data, with what transformers computes for it, and ways to run it here.
#pragma once

#include <string>
#include <vector>

#include "core/json.h"
#include "core/thread_pool.h"
#include "engine/model.h"
#include "engine/model_executor.h"

namespace fk::golden {

inline const std::string kData = FK_SOURCE_DIR "/tests/golden/data/";  // of the language models

// A model of a folder and where it runs: all models on the CPU, and on CUDA where this build has it.
struct Subject {
  std::string model;
  Device device = kCpu;
};
std::vector<Subject> subjects(const std::string& folder);
// For gtest: the model with underscores, then the device if it is another one than the CPU.
std::string subject_name(const Subject& subject);
bool has_cuda_backend();

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

  Model load(DType dtype, ThreadPool& pool, Device device = kCpu) const;
  const Case* find(const std::string& case_name) const;

  ModelSource source;
  uint64_t seed = 0;
  double largest_bf16_error = 0;  // of transformers in bf16, relative to the largest logit
  double largest_f16_error = 0;   // the same in f16, the rounding of the weights included
  std::vector<Case> cases;
};

// Largest difference, relative to the largest expected number; infinity where anything is not finite.
double relative_error(const std::vector<double>& expected, const float* actual);

// Copied from the device where they are on one.
std::vector<float> on_host(const View& logits);

// All prompts in one pass, one pass each, or in chunks of a few tokens: logits of the last tokens, [prompts][V].
std::vector<std::vector<float>> run_batched(ModelExecutor& executor, const std::vector<std::vector<int64_t>>& prompts);
std::vector<float> run_alone(ModelExecutor& executor, const std::vector<int64_t>& prompt);

}  // namespace fk::golden
