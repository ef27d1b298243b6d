// Denoiser: makes texts with a diffusion language model. What follows a prompt begins as mask tokens. Every step runs
// the model over the whole text, draws a token for each mask of the current block, and keeps those it is surest of; the
// others stay masks. Blocks are filled from left to right.
#pragma once

#include <functional>

#include "engine/encoder.h"

namespace fk {

// How sure the model is of a token it drew: its probability, or a random number.
enum class Remasking : uint8_t { kLowConfidence, kRandom };
Remasking remasking_from_name(std::string_view name);  // throws Error with the names known

struct DenoiseOptions {
  int64_t gen_length = 128;   // tokens that follow each prompt
  int64_t block_length = 32;  // of which so many are filled before the next ones; the last block may be shorter
  int64_t steps = 128;        // of all blocks together; each block has at least one and at most one per token
  double temperature = 0;     // 0: the most likely token; else of Gumbel noise
  Remasking remasking = Remasking::kLowConfidence;
  uint64_t seed = 0;
};

// How many tokens each of `steps` steps keeps of `masks`: equal numbers, the first ones one more where they do not
// divide.
std::vector<int64_t> tokens_per_step(int64_t masks, int64_t steps);

// One pass of a text: which block of the output it works on, and how much of that is known by then.
struct DenoiseStep {
  int64_t first = 0, length = 0;  // of the block, from the end of the prompt on
  int64_t known = 0, keep = 0;    // tokens of it before the step, and those that the step adds
};
std::vector<DenoiseStep> denoise_steps(const DenoiseOptions& options);

class Denoiser {
 public:
  // Throws Error where the model is none of this task.
  Denoiser(const Model& model, ThreadPool& pool);

  // What follows each prompt, gen_length tokens. `progress` is called after each step, with all texts so far.
  using Texts = std::vector<std::vector<int64_t>>;
  Texts generate(const Texts& prompts, const DenoiseOptions& options,
                 const std::function<void(const Texts&)>& progress = {});

  int64_t passes() const { return passes_; }  // of the model, so far
  Encoder& encoder() { return *encoder_; }

 private:
  struct Guess {
    int64_t token = 0;
    double confidence = 0;
  };
  // Of one row of logits, for the token at a place of a text.
  Guess guess(const float* logits, const DenoiseOptions& options, size_t text, int64_t place, int64_t step) const;
  void run_step(Texts& texts, const std::vector<std::vector<int64_t>>& blocks, const std::vector<int64_t>& keep,
                const DenoiseOptions& options, int64_t step);

  const Model& model_;
  ThreadPool& pool_;
  std::unique_ptr<Encoder> encoder_;
  Tensor logits_;  // on the host
  int64_t passes_ = 0;
};

}  // namespace fk
