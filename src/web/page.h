// The page itself: its parts as the server hands them out, and all of them in one file.
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

// What the browser is told to refuse: scripts, styles and connections from anywhere but here.
inline constexpr std::string_view kServerPolicy =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

std::string served_page(std::string_view action_token);  // empty: a page that can change nothing

// `data`: answers by path, and "start", the address it opens on.
std::string offline_page(const Json& data);

std::string random_token();  // 128 bits, as hexadecimal text

}  // namespace fk
