// Reads whole files that a user names. Refuses pipes, devices, and files that are too large for their kind.
#pragma once

#include <cstddef>
#include <string>

namespace fk {

// Larger than any known tokenizer.json, config or list of scenarios (the largest known are about 35 MB).
inline constexpr size_t kLargestText = size_t{1} << 30;

// Throws Error: "`what` cannot be read (why)", followed by `advice` if it is given ("; download it again").
std::string read_file(const std::string& path, const std::string& what, const std::string& advice = "",
                      size_t most_bytes = kLargestText);

}  // namespace fk
