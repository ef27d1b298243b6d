// quantization_config of a config.json: which weight format each matrix of the checkpoint has.
//
// Read are the methods fp8, gptq, awq and compressed-tensors. What a method can ask for and we lack is refused by name.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "models/json_fields.h"

namespace fk {

struct Family;

// The weight format of a module, given by its path in the checkpoint; empty: elements of a dtype.
using FormatOf = std::function<std::string(const std::string& path)>;
// How the checkpoint of a config.json stores its matrices, whatever its model can multiply by; no function where the
// file has no quantization_config, or one that its family reads itself.
FormatOf read_stored_formats(const JsonFields& config);

// The text that ops/formats/format_map.h describes; empty where the file has no quantization_config, and for families
// that do not multiply by quantised matrices (experts, stacked projections): theirs are dequantised while they are
// loaded (models/dequantise.h).
std::string read_quantization(const JsonFields& config, const Family& family, int64_t layers);

// The same text for a model without a checkpoint, whose matrices are all to have one format: `name` is a method as vLLM
// calls it (quantization_names()), or a weight format. Embedding and head stay unquantised, as such checkpoints have
// them; in a block format of GGUF they are quantised too. Throws Error for a family that does not multiply by quantised
// matrices.
std::string quantization_of_name(std::string_view name, const Family& family);
std::vector<std::string_view> quantization_names();  // "fp8", "int4", ...

}  // namespace fk
