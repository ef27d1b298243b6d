// The folder of the tokenizers that tests read.
#pragma once

#include <string>

namespace fk {

inline const std::string kTokenizerFiles = FK_SOURCE_DIR "/tests/models/data/tokenizers/";

}  // namespace fk
