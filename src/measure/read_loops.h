// All loops that read memory fast on this CPU: the list used by every measurement of read bandwidth.
//
// The fastest loop depends on the CPU and on where the memory is: on some CPUs, eight pages in parallel reach a fifth
// more of the bandwidth of main memory, on others only half of a sequential read. So a measurement of the peak must
// time all of them.
#pragma once

#include <cstddef>
#include <vector>

#include "measure/probe_kernels.h"

namespace fk {

// The loops that can read blocks of this size, a multiple of kStreamStep; never empty.
std::vector<ReadKernel> read_loops(size_t stretch_bytes);

}  // namespace fk
