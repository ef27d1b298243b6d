// Reading the one-line files of /proc and /sys.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace fk {

// Without blanks and line ends at either side.
std::string_view trim(std::string_view text);

// The trimmed text of a file of at most 1 MiB; nothing where it cannot be read.
std::optional<std::string> small_file(const std::string& path);

// Paths in `folder` named `prefix` and a number, ordered by the number.
std::vector<std::string> files_like(const std::string& folder, std::string_view prefix);

}  // namespace fk
