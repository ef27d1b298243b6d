// What another program prints, for asking tools about themselves.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace fk {

// Path of the program in the folders of PATH, or nothing.
std::optional<std::string> find_program(std::string_view name);

// Hands all that `file` says to `take`, block by block. False at the deadline, on an error, or where `take` says so.
bool read_blocks(int file, int limit_ms, const std::function<bool(std::string_view)>& take);

// Standard output of `command` (its first word looked up in PATH), run without a shell and with no standard input.
// Nothing when it cannot start, fails, prints over `limit_bytes`, or takes longer than `limit_ms` (it is then killed).
std::optional<std::string> output_of(const std::vector<std::string>& command, int limit_ms,
                                     size_t limit_bytes = size_t{1} << 20);

}  // namespace fk
