// Speculative decoding by n-gram lookup: the tokens after the last n tokens of a sequence are guessed to be those that
// followed the same n tokens before. A step computes the guesses beside the token they follow, and keeps those that
// are what the model draws. See docs/engine.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace fk {

// Names are vLLM's.
struct SpeculativeOptions {
  int64_t num_speculative_tokens = 0;  // guesses of one sequence in a step; 0: no speculation
  int64_t prompt_lookup_max = 4;       // the longest n that is looked up
  int64_t prompt_lookup_min = 2;       // the shortest n that is enough
};

// From {"method": "ngram", "num_speculative_tokens": 4, "prompt_lookup_max": 4, "prompt_lookup_min": 2}, as vLLM's
// --speculative-config has it. Throws UsageError that names the field.
SpeculativeOptions read_speculative_config(const std::string& text);
// Throws UsageError that names the option out of range.
void check_speculative_options(const SpeculativeOptions& options);

// How many of the drawn tokens are tokens of the sequence: drawn[i] was drawn after drafts[0] to drafts[i - 1], so it
// counts if these are what was drawn before it. drawn has one token more than drafts; the first always counts.
size_t tokens_kept(std::span<const int64_t> drafts, std::span<const int64_t> drawn);

}  // namespace fk
