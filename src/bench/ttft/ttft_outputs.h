// What a model gives for the prompts of a measurement, so that ways to run it can be compared: same prompts, same
// number of steps, greedy tokens.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bench/ttft/ttft.h"

namespace fk {

struct TtftOutputs {
  uint64_t prompts_hash = 0;                      // of all ids, or of the seed and the sizes of an encoder's input
  std::vector<std::vector<int64_t>> tokens = {};  // greedy, by sequence; none of an encoder
  // How far the best logit of each of these steps is above the second, in units of the largest: what a difference in
  // rounding can change.
  std::vector<std::vector<double>> margins = {};
  // The logits after the first prompt, or the vector of the first token or patch: their first elements, and a hash of
  // all bits of all rows.
  std::vector<double> numbers = {};
  uint64_t bits = 0;
};

// The prompts of the first iteration, then decode_tokens greedy steps. Nothing is timed.
TtftOutputs run_outputs(const Model& model, ThreadPool& pool, const TtftOptions& options);

struct OutputComparison {
  bool same_prompts = false;
  bool same_tokens = false;  // also where there are none
  bool same_bits = false;
  int64_t sequences = 0, steps = 0;
  double largest_difference = 0;  // of the numbers, in units of the largest of them
  // The first token that differs.
  int64_t sequence = -1, step = -1, token = -1, other_token = -1;
  double margin = 0;  // of that step, of the first of the two

  // Without tokens the numbers decide: rounding in bf16 makes a few percent of a difference, another model all of it.
  bool equal() const { return same_prompts && same_tokens && (steps > 0 || same_bits || largest_difference < 0.1); }
};
OutputComparison compare_outputs(const TtftOutputs& a, const TtftOutputs& b);
// One sentence: "the same 32 greedy tokens, logits of the prompt equal bit for bit".
std::string comparison_text(const OutputComparison& c, const std::string& name, const std::string& other);

}  // namespace fk
