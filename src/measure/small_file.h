// Reads the one-line files of /proc and /sys.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace fk {

// Removes blanks and line ends at both ends.
std::string_view trim(std::string_view text);

// The trimmed text of a file of at most 1 MiB; empty if it cannot be read.
std::optional<std::string> small_file(const std::string& path);

// Paths in `folder` whose names are `prefix` and a number, ordered by the number.
std::vector<std::string> files_like(const std::string& folder, std::string_view prefix);

}  // namespace fk
