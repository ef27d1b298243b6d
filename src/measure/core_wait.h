// How long a process waited for a core although it had work, from the counters of Linux.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string_view>

namespace fk {

// Sum over all its threads since they started; empty if the kernel does not count it.
std::optional<int64_t> waited_for_cores_ns(pid_t process);

// The same for one thread, from the text of its schedstat file.
std::optional<int64_t> waited_for_core_ns(std::string_view schedstat);

}  // namespace fk
