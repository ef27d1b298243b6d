// Loops that read or write memory sequentially as fast as this CPU can: no kernel exceeds their rates.
//
// One file per architecture, the instructions chosen at run time. The fastest loop depends on where the memory is, so a
// measurement of the peak must time all of them.
#pragma once

#include <cstddef>
#include <vector>

#include "measure/probe_kernels.h"

namespace fk {

// Start addresses and sizes are multiples of this.
inline constexpr size_t kStreamStep = 1024;

std::vector<ReadKernel> stream_read_kernels();

// Writes every byte of [data, data + size_bytes) once.
struct WriteKernel {
  const char* instruction;
  void (*run)(std::byte* data, size_t size_bytes);
};

// Ordinary stores, and non-temporal stores, which bypass the caches.
std::vector<WriteKernel> stream_write_kernels();

}  // namespace fk
