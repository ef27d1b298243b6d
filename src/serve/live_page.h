// The page at / and the description of the API: files of src/serve/assets, embedded in the program.
#pragma once

#include <string>
#include <string_view>

#include "serve/http.h"

namespace fk {

HttpResponse live_page();
// OpenAPI 3.1, with the program's version in it.
std::string openapi_text(std::string_view version);

}  // namespace fk
