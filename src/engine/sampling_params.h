// SamplingParams: how the next token of a sequence is chosen from its logits.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace fk {

struct SamplingParams {
  double temperature = 0;  // 0: the most likely token
  int64_t top_k = 0;       // 0: all
  double top_p = 1;        // 1: all
  double min_p = 0;        // 0: all
  uint64_t seed = 0;
  // As vLLM and transformers define them: the first over prompt and output, the others over the output.
  double repetition_penalty = 1;  // divides positive logits of tokens that occurred and multiplies negative ones
  double presence_penalty = 0;    // subtracted from the logit of tokens that occurred
  double frequency_penalty = 0;   // the same, as often as they occurred
  std::vector<std::pair<int64_t, float>> logit_bias = {};  // token, what is added to its logit

  bool has_penalties() const {
    return repetition_penalty != 1 || presence_penalty != 0 || frequency_penalty != 0 || !logit_bias.empty();
  }
};

// Throws UsageError that names the parameter out of range.
void check_sampling_params(const SamplingParams& params);

}  // namespace fk
