// The token ids a model starts and stops at, from generation_config.json and config.json, and how it likes to be
// sampled.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/json_fwd.h"

namespace fk {

// From generation_config.json, where do_sample is true. Keys that are missing stay empty.
struct SamplingDefaults {
  std::optional<double> temperature = {};  // 1 where the file names none, as transformers has it
  std::optional<int64_t> top_k = {};
  std::optional<double> top_p = {};
  std::optional<double> min_p = {};
  std::optional<double> repetition_penalty = {};

  friend bool operator==(const SamplingDefaults&, const SamplingDefaults&) = default;
};

struct GenerationDefaults {
  std::optional<int64_t> bos;
  std::vector<int64_t> eos;  // any of them ends a text; empty: none does
  SamplingDefaults sampling = {};

  friend bool operator==(const GenerationDefaults&, const GenerationDefaults&) = default;
};

// generation_config.json wins key by key, and may be missing.
GenerationDefaults read_generation_defaults(const std::string& directory);
// One file's share; `what` names it in errors.
GenerationDefaults generation_defaults_from_json(const Json& json, const std::string& what);

}  // namespace fk
