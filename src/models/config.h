// config.json of a Hugging Face directory, read by the family it names.
//
// Reads the files of transformers 4 and 5. An unsupported setting that changes the arithmetic is refused by name.
#pragma once

#include <string>

#include "core/json_fwd.h"
#include "models/model_config.h"
#include "models/quantization_config.h"

namespace fk {

class JsonFields;

// The dtype is the one the file states: float32 where it states none. The fields' what() names the text in errors.
ModelConfig config_from_fields(const JsonFields& fields);
ModelConfig config_from_json(const Json& json, const std::string& what);
ModelConfig read_config(const std::string& directory);
// What the config.json of a directory says of its checkpoint and not of its model.
struct StoredExtras {
  FormatOf formats;  // see models/quantization_config.h
  // Layers after the last one that predict tokens after the next, as DeepSeek V3 and GLM 4.5 have; they are not used.
  int64_t predicting_layers = 0;
};
StoredExtras read_stored_extras(const std::string& directory);

}  // namespace fk
