// Extracts the warnings from a compiler's output.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace fk {

// One line each: "rms_norm.cpp:12:7: unused variable 'x' [-Wunused-variable]".
std::vector<std::string> warnings_in(std::string_view log);

// The first few, a line each, and how many more there are; empty without any.
std::string short_warnings(const std::vector<std::string>& warnings);

}  // namespace fk
