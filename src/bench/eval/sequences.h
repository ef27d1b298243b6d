// BatchedSequences: runs prompts of one batch through a language model, greedy or with given tokens, step by step.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "engine/decode_loop.h"
#include "engine/model_executor.h"

namespace fk {

using TokenRows = std::vector<std::vector<int64_t>>;  // by request

// Random prompts; equal arguments give equal prompts.
TokenRows eval_prompts(uint64_t seed, std::string_view purpose, int64_t count, int64_t tokens, int64_t vocab_size);

class BatchedSequences {
 public:
  BatchedSequences(const Model& model, ThreadPool& pool, const EngineOptions& options);

  // The logits [rows, V] after the step that gave them, on the host; step 0 is that of the prompt.
  using Visitor = std::function<void(int64_t step, int64_t row, std::span<const float> logits)>;

  // Draws `steps` tokens for every prompt, all at once, always the most likely.
  TokenRows draw(const TokenRows& prompts, int64_t steps, const Visitor& visit = {});
  // The same with these tokens in place of those drawn: forced decode.
  void force(const TokenRows& prompts, const TokenRows& tokens, const Visitor& visit);

  const EngineOptions& options() const { return executor_.options(); }
  const Model& model() const { return executor_.model(); }

 private:
  TokenRows run(const TokenRows& prompts, const TokenRows* forced, int64_t steps, const Visitor& visit);
  void show(int64_t step, int64_t first_row, const View& logits, const Visitor& visit);

  ModelExecutor executor_;
  DecodeLoop loop_;
  Sampler sampler_;
  std::vector<float> host_;
};

}  // namespace fk
