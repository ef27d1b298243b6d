// What --model means: a directory, a name of the catalog, or a Hugging Face id whose files are in the local cache.
#pragma once

#include <string>
#include <string_view>

#include "models/model_config.h"

namespace fk {

struct ModelSource {
  std::string name;  // as the user gave it
  ModelConfig config;
  std::string directory;  // empty for a name of the catalog, which has no weights
  std::string tokenizer;  // path of tokenizer.json; empty where there is none
};

// Throws Error that says where it looked and, for a name close to a known one, which.
ModelSource resolve_model(std::string_view model);

}  // namespace fk
