// A prompt's token ids, for the verbs that take a text or ids.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/model_options.h"
#include "models/tokenizer.h"

namespace fk {

// Throws Error if the model has no tokenizer, unless it has dummy weights, for which any ids will do. A chat template
// writes the special tokens of the start itself.
std::vector<int64_t> encode_prompt(const std::string& text, const std::optional<Tokenizer>& tokenizer,
                                   const ModelSource& source, const ModelOptions& options,
                                   bool add_special_tokens = true);

// The value of --prompt-token-ids: whole numbers with commas between. Throws UsageError for anything else.
std::vector<int64_t> parse_token_ids(const std::string& text);

}  // namespace fk
