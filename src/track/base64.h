// Base64 (RFC 4648), for artifacts that are no UTF-8 text and yet must stand in JSON.
#pragma once

#include <string>
#include <string_view>

namespace fk {

std::string to_base64(std::string_view bytes);
std::string from_base64(std::string_view text);  // throws Error where it is none

}  // namespace fk
