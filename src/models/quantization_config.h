// quantization_config of a config.json: which weight format each matrix of the checkpoint has.
//
// Read are the methods fp8, gptq, awq and compressed-tensors. What a method can ask for and we lack is refused by name.
#pragma once

#include <cstdint>
#include <string>

#include "models/json_fields.h"

namespace fk {

struct Family;

// The text that ops/formats/format_map.h describes; empty where the file has no quantization_config. Throws Error for a
// family whose matrices cannot be quantised one by one.
std::string read_quantization(const JsonFields& config, const Family& family, int64_t layers);

}  // namespace fk
