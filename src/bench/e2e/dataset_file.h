// The files that datasets are read from: ShareGPT's JSON and JSON lines with a prompt each.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bench/e2e/dataset.h"

namespace fk {

struct FilePrompt {
  std::string prompt;
  std::string answer;         // of sharegpt: the turn after the prompt
  int64_t output_tokens = 0;  // of custom: 0 where the line does not say
};

// [{"conversations": [{"from": "human", "value": "..."}, ...]}, ...]: the first two turns of every conversation that
// has two. Throws Error with the position, or the number of the entry, where the file is something else.
std::vector<FilePrompt> read_sharegpt(const std::string& path);

// {"prompt": "...", "output_tokens": 64}, one object a line; the second field may be left out, other fields are
// ignored, and so are empty lines. Throws Error with the line's number.
std::vector<FilePrompt> read_custom_jsonl(const std::string& path);

// The tokens of a text; without a tokenizer its bytes.
std::vector<int64_t> text_tokens(const std::string& text, const PromptTokens& tokens);

}  // namespace fk
