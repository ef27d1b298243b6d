// What --model means: a directory, a GGUF file, a name of the catalog, or a Hugging Face id whose files are in the
// local cache.
#pragma once

#include <string>
#include <string_view>

#include "models/model_config.h"

namespace fk {

struct ModelSource {
  std::string name;  // as the user gave it
  ModelConfig config;
  std::string directory;  // empty for a name of the catalog, which has no weights, and for a GGUF file
  std::string tokenizer;  // path of tokenizer.json; empty where there is none
  std::string gguf = {};  // path of the GGUF file that holds everything

  bool has_weights() const { return !directory.empty() || !gguf.empty(); }
};

// Throws Error that says where it looked and, for a name close to a known one, which.
ModelSource resolve_model(std::string_view model);

}  // namespace fk
