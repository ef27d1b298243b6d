// Steal time: time that the hypervisor took from a core, as Linux counts it.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace fk {

// Of the core this thread runs on, in ticks of a hundredth of a second; empty if /proc/stat does not have it.
std::optional<int64_t> stolen_ticks();

// The same from the text of /proc/stat.
std::optional<int64_t> stolen_ticks(std::string_view stat, int core);

}  // namespace fk
