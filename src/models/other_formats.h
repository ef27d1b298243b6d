// Recognises checkpoints in unsupported formats, so that the error can name the format.
#pragma once

#include <string>

namespace fk {

// "GGUF" for model.gguf; empty for an unknown extension.
std::string weight_format_of(const std::string& file_name);

// What a directory without safetensors holds instead, as the start of a sentence's next part: " (it holds model.gguf,
// which is GGUF)". Empty where nothing is recognised.
std::string other_weights_in(const std::string& directory);

// What to do about it, as a part of that sentence: a GGUF file is read where it is named.
std::string advice_on_weights_in(const std::string& directory);

}  // namespace fk
