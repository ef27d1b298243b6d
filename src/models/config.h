// config.json of a Hugging Face directory, read into what a model's constructor takes.
//
// Reads the files of transformers 4 and 5. An unsupported setting that changes the arithmetic is refused by name.
#pragma once

#include <string>
#include <string_view>

#include "core/json_fwd.h"
#include "ops/l4/causal_lm_config.h"

namespace fk {

// The dtype is the one the file states: float32 where it states none. `what` names the text in errors.
CausalLMConfig config_from_json(const Json& json, const std::string& what);
CausalLMConfig read_config(const std::string& directory);

// Throws Error where a field is out of range or two contradict each other; config_from_json's results pass.
void check_config(const CausalLMConfig& config, std::string_view what);

}  // namespace fk
