// Escapes untrusted text for HTML, addresses and scripts.
#pragma once

#include <string>
#include <string_view>

#include "core/json.h"

namespace fk {

std::string html_escaped(std::string_view text);
std::string html_unescaped(std::string_view text);  // of the five entities html_escaped and browsers write

// Like JavaScript's encodeURIComponent: pages and the offline file must use the same names.
std::string url_part(std::string_view text);

// JSON for a page: bytes that are not UTF-8 become U+FFFD, numbers that are not finite null; never fails.
std::string page_json(const Json& json);

// The same for inside a <script> element: no "<" that could end it.
std::string script_json(const Json& json);

}  // namespace fk
