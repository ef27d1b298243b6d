// config.json of a Hugging Face directory, read by the family it names.
//
// Reads the files of transformers 4 and 5. An unsupported setting that changes the arithmetic is refused by name.
#pragma once

#include <string>

#include "core/json_fwd.h"
#include "models/model_config.h"

namespace fk {

class JsonFields;

// The dtype is the one the file states: float32 where it states none. The fields' what() names the text in errors.
ModelConfig config_from_fields(const JsonFields& fields);
ModelConfig config_from_json(const Json& json, const std::string& what);
ModelConfig read_config(const std::string& directory);

}  // namespace fk
