// Checkpoints in formats that are not read, by name, so that a refusal can say what it found.
#pragma once

#include <string>

namespace fk {

// "GGUF" for model.gguf, and empty for a name that says nothing.
std::string weight_format_of(const std::string& file_name);

// What a directory without safetensors holds instead, as the start of a sentence's next part: " (it holds model.gguf,
// which is GGUF)". Empty where nothing is recognised.
std::string other_weights_in(const std::string& directory);

}  // namespace fk
