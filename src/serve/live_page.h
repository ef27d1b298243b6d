// The page at / and the description of the API: files of src/serve/assets, embedded in the program.
#pragma once

#include <string>
#include <string_view>

#include "serve/http.h"
#include "serve/served_model.h"

namespace fk {

HttpResponse live_page();
// OpenAPI 3.1, with the program's version, the model's name and its vocabulary in it.
std::string openapi_text(std::string_view version, const ServedModel& model);

}  // namespace fk
