// Which addresses hold the code and data of this program and of the libraries it has loaded so far.
#pragma once

#include <vector>

#include "candidate/runner/seccomp_program.h"

namespace fk {

// Whole pages, in ascending order: every loaded object from its first to its last page, what the kernel maps beside
// them (vdso and its data), and the main thread's stack. What malloc or a thread got from the system is not among them.
std::vector<AddressRange> loaded_memory();

}  // namespace fk
