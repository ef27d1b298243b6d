// The C++ text that every source with attention for the CPU begins with.
#pragma once

#include <string_view>

namespace fk {

// Templates over head sizes, and functions of places of queries, keys and values.
extern const std::string_view kCpuAttention;

}  // namespace fk
