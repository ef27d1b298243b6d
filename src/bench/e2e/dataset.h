// Datasets of serving benchmarks: prompts and how many tokens to generate for each. Names and meanings are those of
// vLLM's benchmarks.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace fk {

class Tokenizer;

struct BenchRequest {
  std::vector<int64_t> prompt_tokens;  // empty where only the text is known, since there is no tokenizer
  std::string prompt;                  // text; empty where there is no tokenizer to make one of the tokens
  int64_t output_len = 0;
};

struct DatasetOptions {
  std::string name = "random";  // dataset_names()
  std::string path;             // of sharegpt and custom
  int64_t num_prompts = 1000;
  uint64_t seed = 0;
  std::function<void(const std::string&)> warn;  // where given: called with a sentence about a file that is too short

  // random: lengths are uniform in [len * (1 - range_ratio), len * (1 + range_ratio)], rounded outwards; the first
  // prefix_len tokens are the same in all prompts and come in addition.
  int64_t random_input_len = 1024;
  int64_t random_output_len = 128;
  double random_range_ratio = 0;
  int64_t random_prefix_len = 0;

  // prefix-repetition: num_prefixes prefixes, each with as many suffixes of its own.
  int64_t prefix_len = 256;
  int64_t suffix_len = 256;
  int64_t num_prefixes = 10;
  int64_t prefix_output_len = 128;

  // sharegpt: 0: as many as the second turn has. custom: where a line has no "output_tokens".
  int64_t sharegpt_output_len = 0;
  int64_t custom_output_len = 256;
};

// What prompts are made of.
struct PromptTokens {
  int64_t vocab_size = 0;
  const Tokenizer* tokenizer = nullptr;
  // Without a tokenizer: the bytes of a text are its tokens. For models with dummy weights, for which any ids will do.
  bool bytes_are_tokens = false;
};

const std::vector<std::string>& dataset_names();

// Throws UsageError for options out of range and Error, with the line or the entry, for a file that cannot be used.
std::vector<BenchRequest> make_requests(const DatasetOptions& options, const PromptTokens& tokens);

}  // namespace fk
