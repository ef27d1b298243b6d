// Reading whole files that a user names. What never ends is refused: pipes, devices, and files too large for what they
// should be.
#pragma once

#include <cstddef>
#include <string>

namespace fk {

// Beyond any tokenizer.json, config or list of scenarios there is (the largest known are some 35 MB).
inline constexpr size_t kLargestText = size_t{1} << 30;

// Throws Error: "`what` cannot be read (why)", with `advice` behind where it is given ("; download it again").
std::string read_file(const std::string& path, const std::string& what, const std::string& advice = "",
                      size_t most_bytes = kLargestText);

}  // namespace fk
