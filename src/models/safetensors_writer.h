// Writes a .safetensors file that models/safetensors.h, and any other reader of the format, reads back.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "core/tensor.h"

namespace fk {

// Tensors must be dense. The file is written under a temporary name and renamed, so that a reader never sees an
// incomplete file.
void write_safetensors(const std::string& path, const std::vector<std::pair<std::string, View>>& tensors);

}  // namespace fk
