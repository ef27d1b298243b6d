// Speculative decoding: the next tokens of a sequence are guessed, a step computes the guesses beside the token they
// follow, and those that are what the model draws are kept. By n-gram lookup the tokens after the last n tokens are
// guessed to be those that followed the same n tokens before; or a second, smaller model draws them, or an EAGLE-3
// head, which sees hidden states of the model. See docs/engine.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace fk {

enum class SpeculativeMethod : uint8_t {
  kNgram,
  kDraftModel,
  kEagle3,
};

const char* speculative_method_name(SpeculativeMethod method);  // "ngram"

// A guess whose place in a step is planned, and whose token a draft model gives later.
inline constexpr int64_t kUnknownGuess = -1;

// Names are vLLM's.
struct SpeculativeOptions {
  int64_t num_speculative_tokens = 0;  // guesses of one sequence in a step; 0: no speculation
  int64_t prompt_lookup_max = 4;       // n-grams: the longest n that is looked up
  int64_t prompt_lookup_min = 2;       // n-grams: the shortest n that is enough
  SpeculativeMethod method = SpeculativeMethod::kNgram;

  // A second model guesses: one that generates text by itself, or a head.
  bool has_draft_model() const { return num_speculative_tokens > 0 && method != SpeculativeMethod::kNgram; }
  bool has_head() const { return num_speculative_tokens > 0 && method == SpeculativeMethod::kEagle3; }
};

struct SpeculativeConfig {
  SpeculativeOptions options;
  std::string model;  // that guesses; empty: n-grams
};

// From {"method": "ngram", "num_speculative_tokens": 4, "prompt_lookup_max": 4, "prompt_lookup_min": 2} or {"model":
// "PATH-OR-NAME", "num_speculative_tokens": 4}, with "method": "eagle3" where the model is such a head, as vLLM's
// --speculative-config has it. Throws UsageError that names the field.
SpeculativeConfig read_speculative_config(const std::string& text);
// Throws UsageError that names the option out of range.
void check_speculative_options(const SpeculativeOptions& options);

// How many of the drawn tokens are tokens of the sequence: drawn[i] was drawn after drafts[0] to drafts[i - 1], so it
// counts if these are what was drawn before it. drawn has one token more than drafts; the first always counts.
size_t tokens_kept(std::span<const int64_t> drafts, std::span<const int64_t> drawn);

}  // namespace fk
