// SHA-256 (FIPS 180-4): the address of an artifact is the digest of its bytes.
#pragma once

#include <string>
#include <string_view>

namespace fk {

std::string sha256_hex(std::string_view bytes);  // 64 digits

}  // namespace fk
