// The addresses of the code and data of this program and of the libraries loaded so far.
#pragma once

#include <vector>

#include "candidate/seccomp_program.h"

namespace fk {

// Whole pages, in ascending order: every loaded object from its first to its last page, the kernel's own mappings (vdso
// and its data), and the main thread's stack. Memory of malloc and stacks of other threads are not included.
std::vector<AddressRange> loaded_memory();

}  // namespace fk
