// All loops that read memory fast on this CPU: the one list behind every read bandwidth that is measured.
//
// Which of them is the fastest depends on the CPU and on where the memory lies: on some, eight pages side by side use a
// fifth more of main memory, on others they get half of what reading straight on does. So whoever wants a ceiling times
// all of them.
#pragma once

#include <cstddef>
#include <vector>

#include "measure/probe_kernels.h"

namespace fk {

// Those that can read stretches of so many bytes, a multiple of kStreamStep; never empty.
std::vector<ReadKernel> read_loops(size_t stretch_bytes);

}  // namespace fk
