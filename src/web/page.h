// The HTML page: its assets for the server, and everything in one file.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "core/json.h"

namespace fk {

struct Asset {
  std::string_view text;
  std::string_view type;  // "text/css; charset=utf-8"
};

std::optional<Asset> find_asset(std::string_view name);  // "main.js"; "d3.js" is the charting library

// The content security policy: no scripts, styles or connections from other origins.
inline constexpr std::string_view kServerPolicy =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

std::string served_page(std::string_view action_token);  // empty: a read-only page

// `data`: replies by path, and "start", the address it opens.
std::string offline_page(const Json& data);

std::string random_token();  // 128 bits, as hexadecimal text

}  // namespace fk
