// The model in a GGUF file: its configuration from the metadata, and what its tensors are called here.
#pragma once

#include <string>
#include <string_view>

#include "models/generation_defaults.h"
#include "models/gguf.h"
#include "models/model_config.h"

namespace fk {

// Read by the family whose architecture the file names. What the metadata asks for and the family lacks is refused.
ModelConfig gguf_config(const GgufFile& file);

// "blk.3.attn_q.weight" -> "model.layers.3.self_attn.q_proj.weight". A name that is not known stays as it is; empty:
// the tensor is part of the configuration.
std::string gguf_tensor_name(std::string_view name);

// The token ids a text starts and ends with.
GenerationDefaults gguf_generation_defaults(const GgufFile& file);

}  // namespace fk
