// Base64 (RFC 4648), for artifacts in JSON that are not UTF-8 text.
#pragma once

#include <string>
#include <string_view>

namespace fk {

std::string to_base64(std::string_view bytes);
std::string from_base64(std::string_view text);  // throws Error if it is not base64

}  // namespace fk
