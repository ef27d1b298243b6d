// Reads tokenizer.json. The two large lists go directly into vectors: building a JSON tree of them takes seconds.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/json.h"

namespace fk {

struct TokenizerFile {
  std::string what;                                                   // names the file in errors
  Json root;                                                          // everything else; null in place of the two lists
  std::optional<std::vector<std::pair<std::string, int64_t>>> vocab;  // model.vocab, where it is an object
  std::optional<std::vector<std::pair<std::string, std::string>>> merges;  // model.merges, where it is an array
};

TokenizerFile read_tokenizer_file(std::string_view text, std::string_view what);

}  // namespace fk
