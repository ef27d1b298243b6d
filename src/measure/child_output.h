// Runs another program and returns its output, for example to get a tool's version.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace fk {

// Path of the program in the folders of PATH, or empty. A name with a slash is a path already.
std::optional<std::string> find_program(std::string_view name);

// Passes everything read from `file` to `take`, block by block. False at the deadline, on an error, or if `take`
// returns false.
bool read_blocks(int file, int limit_ms, const std::function<bool(std::string_view)>& take);

// Standard output of `command` (its first word is searched in PATH), run without a shell and without standard input.
// Empty if it cannot start, fails, prints more than `limit_bytes`, or takes longer than `limit_ms` (it is then killed).
std::optional<std::string> output_of(const std::vector<std::string>& command, int limit_ms,
                                     size_t limit_bytes = size_t{1} << 20);

}  // namespace fk
