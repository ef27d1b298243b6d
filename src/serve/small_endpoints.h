// The endpoints that only read: models, tokenizing and detokenizing.
#pragma once

#include <string>
#include <string_view>

#include "core/json_fwd.h"
#include "serve/served_model.h"

namespace fk {

Json models_json(const ServedModel& model);
// Throws ApiError where the server has no model of that name.
Json model_json(const ServedModel& model, const std::string& name);

// {"prompt": ...} or {"messages": ...} → {"count", "max_model_len", "tokens"}. Throw ApiError.
Json tokenize_json(const ServedModel& model, const Json& body);
Json detokenize_json(const ServedModel& model, const Json& body);

}  // namespace fk
