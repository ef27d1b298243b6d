// Parses points in time as users write them.
#pragma once

#include <cstdint>
#include <string_view>

namespace fk {

// "2026-11-15", "2026-11-15 07:32" or "...:28" (UTC), "today", "yesterday", or an age: "30m", "2h", "3d", "1w".
// Throws UsageError for anything else.
int64_t parse_since(std::string_view text, int64_t now_us);

}  // namespace fk
