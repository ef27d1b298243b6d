// How a directory of sentence-transformers makes one vector of a text: 1_Pooling/config.json.
#pragma once

#include <optional>
#include <string>

namespace fk {

// "cls", "mean" or "last"; nothing where the directory does not say. Throws Error where it asks for another way.
std::optional<std::string> read_sentence_pooling(const std::string& directory);

}  // namespace fk
