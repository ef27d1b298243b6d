// Takes memory out of the CPU's caches, so that the next read of it comes from main memory.
#pragma once

#include <cstddef>

namespace fk {

// Writes back and drops every line of the range from all caches of all cores. Lines are found by physical address:
// where two processes share a page, either can evict it for both. Memory that was never touched stays untouched in
// content.
void evict_from_caches(const void* address, size_t size_bytes);

}  // namespace fk
