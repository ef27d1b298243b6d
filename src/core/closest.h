// Suggestions for a misspelled name.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace fk {

// The names nearest to `name` by edit distance, nearest first, at most `most`; distant names are left out.
std::vector<std::string> closest_names(std::string_view name, std::span<const std::string> names, size_t most = 3);

// ", did you mean a or b?", or ";" if no name is near; meant for the middle of a sentence.
std::string did_you_mean(std::string_view name, std::span<const std::string> names);

}  // namespace fk
