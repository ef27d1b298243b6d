// The token ids a model starts and stops at, from generation_config.json and config.json.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/json_fwd.h"

namespace fk {

struct GenerationDefaults {
  std::optional<int64_t> bos;
  std::vector<int64_t> eos;  // any of them ends a text; empty: none does

  friend bool operator==(const GenerationDefaults&, const GenerationDefaults&) = default;
};

// generation_config.json wins key by key, and may be missing.
GenerationDefaults read_generation_defaults(const std::string& directory);
// One file's share; `what` names it in errors.
GenerationDefaults generation_defaults_from_json(const Json& json, const std::string& what);

}  // namespace fk
