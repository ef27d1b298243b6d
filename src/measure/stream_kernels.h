// Loops that read or write memory in the order of addresses as fast as this CPU can: the rates no kernel passes.
//
// One file per architecture, the instructions chosen at run time. Which loop is the fastest depends on where the memory
// lies, so whoever wants a ceiling times all of them.
#pragma once

#include <cstddef>
#include <vector>

#include "measure/probe_kernels.h"

namespace fk {

// Starts and sizes are multiples of this.
inline constexpr size_t kStreamStep = 1024;

std::vector<ReadKernel> stream_read_kernels();

// Writes every byte of [data, data + size_bytes) once.
struct WriteKernel {
  const char* instruction;
  void (*run)(std::byte* data, size_t size_bytes);
};

// Stores that take lines into the caches, and such as go past them.
std::vector<WriteKernel> stream_write_kernels();

}  // namespace fk
