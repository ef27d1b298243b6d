// The system calls a runner keeps: those of memory, threads, clocks, reading files and its channel.
#pragma once

#include <vector>

#include "candidate/runner/seccomp_program.h"

namespace fk {

// For all threads of the process, for good. Calls that only an attack needs (new processes, network, tracing, changing
// the mapping of `ours`, signals on a channel, a filter of its own) end the process at once with SIGSYS; what is merely
// unknown fails with EPERM. False, with errno, where the kernel has none. `drives_gpu`: a GPU's driver waits by other
// means, and asks for sockets without need, which then only fail.
bool install_seccomp_filter(const std::vector<AddressRange>& ours, bool drives_gpu = false);

// For the calling thread and those it starts from now on, for good: the cores they may use stay as they are; asking for
// others fails with EPERM. Before the filter above, which lets no other be installed and then holds all threads to
// both.
bool forbid_other_cores();

}  // namespace fk
