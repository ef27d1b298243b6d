// The flags of `generate` that say what is generated, and the requests they come to.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/chat_options.h"
#include "cli/model_options.h"
#include "engine/request.h"
#include "models/generation_defaults.h"
#include "models/tokenizer.h"

namespace fk {

// A prompt as it was given, and as tokens.
struct GivenPrompt {
  std::string text;  // empty where ids were given; with --chat: what the template makes of it
  std::vector<int64_t> ids;
};

class GenerateOptions {
 public:
  void add_flags(FlagSet& flags);
  // Throws UsageError for what is wrong without a look at the model.
  void check(uint64_t seed, int64_t ranks);

  bool has_ids() const { return !prompt_ids_.empty(); }
  // Reads the files and standard input.
  std::vector<GivenPrompt> prompts(const std::optional<Tokenizer>& tokenizer, const ModelSource& source,
                                   const ModelOptions& model);
  // What the checkpoint says where no flag does. Returns a sentence with the values it took, or an empty one.
  std::string take_defaults(const GenerationDefaults& defaults);
  Request request(const GivenPrompt& prompt, int64_t sample) const;

  int64_t samples() const { return samples_; }
  int64_t max_tokens() const { return max_tokens_; }
  const SamplingParams& sampling() const { return sampling_; }

 private:
  std::vector<std::string> prompt_texts_, prompt_files_, prompt_ids_, stop_;
  std::vector<int64_t> stop_token_ids_, end_tokens_;
  ChatOptions chat_;
  SamplingParams sampling_;
  int64_t max_tokens_ = 16, min_tokens_ = 0, samples_ = 1, logprobs_ = 0, prompt_logprobs_ = 0;
  bool ignore_eos_ = false;
  std::string generation_config_ = "auto";
  const Flag *logprobs_flag_ = nullptr, *prompt_logprobs_flag_ = nullptr, *temperature_flag_ = nullptr,
             *top_k_flag_ = nullptr, *top_p_flag_ = nullptr, *min_p_flag_ = nullptr, *repetition_flag_ = nullptr;
};

}  // namespace fk
