// A prompt's token ids, for the verbs that take a text or ids.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/model_options.h"
#include "models/tokenizer.h"

namespace fk {

// Throws Error where the model has no tokenizer, unless its weights are dummies, for which any ids do.
std::vector<int64_t> encode_prompt(const std::string& text, const std::optional<Tokenizer>& tokenizer,
                                   const ModelSource& source, const ModelOptions& options);

}  // namespace fk
