// The system calls a runner may make: for memory, threads, clocks, reading files and its channel.
#pragma once

#include <vector>

#include "candidate/seccomp_program.h"

namespace fk {

// Permanent, for all threads of the process. System calls that only an attack needs (new processes, network, tracing,
// changing the mapping of `ours`, signals on a channel, another filter) end the process at once with SIGSYS; all other
// calls fail with EPERM. False, with errno, if the kernel does not support seccomp. `drives_gpu`: a GPU's driver needs
// more system calls, and tries to open sockets without need; these calls then only fail.
bool install_seccomp_filter(const std::vector<AddressRange>& ours, bool drives_gpu = false);

// Whether the C library registers a restartable sequence (rseq) for every thread. With one over the runner's loop Linux
// would continue a stopped process in code of the candidate, so a runner is started with GLIBC_TUNABLES that prevent
// it, and the filter above refuses rseq.
bool registers_restartable_sequences();

// Permanent, for the calling thread and those it starts later: they cannot change their cores (EPERM). Must be
// installed before the filter above, which allows no further filter and then applies both to all threads.
bool forbid_other_cores();

}  // namespace fk
