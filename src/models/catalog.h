// Models known by name, from catalog.yaml, which the build puts into the binary.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "models/model_config.h"

namespace fk {

struct CatalogEntry {
  std::string name;      // "llama-3.2-1b"
  std::string hf_id;     // "meta-llama/Llama-3.2-1B-Instruct"; empty for the test-sized ones
  std::string family;    // "llama"
  std::string category;  // "llm"
  ModelConfig config;
  std::string config_json;  // the config.json of such a model, as a text
};

const std::vector<CatalogEntry>& catalog();               // in the file's order
const CatalogEntry* find_catalog(std::string_view name);  // nullptr where unknown

// Reads a text like catalog.yaml; throws Error where an entry is unusable.
std::vector<CatalogEntry> parse_catalog(std::string_view text);

}  // namespace fk
