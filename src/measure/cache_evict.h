// Evicts memory from the CPU's caches, so that the next read comes from main memory.
#pragma once

#include <cstddef>

namespace fk {

// Writes back and drops every line of the range from all caches of all cores. Lines are found by physical address: if
// two processes share a page, either can evict it for both. The content of the memory does not change.
void evict_from_caches(const void* address, size_t size_bytes);

}  // namespace fk
