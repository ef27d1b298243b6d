// "dc civac" cleans and invalidates a line to the point of coherency, which is main memory for data. Linux lets user
// programs use it.
#include "measure/cache_evict.h"

#include <cstdint>

namespace fk {
namespace {

size_t line_bytes() {
  uint64_t ctr = 0;
  asm("mrs %0, ctr_el0" : "=r"(ctr));
  return size_t{4} << ((ctr >> 16) & 0xf);  // DminLine: log2 of the smallest data line, in words
}

}  // namespace

void evict_from_caches(const void* address, size_t size_bytes) {
  static const size_t step = line_bytes();
  if (size_bytes == 0) return;
  const char* end = static_cast<const char*>(address) + size_bytes;
  const char* line = static_cast<const char*>(address) - reinterpret_cast<uintptr_t>(address) % step;
  asm volatile("dsb sy" ::: "memory");
  for (; line < end; line += step) asm volatile("dc civac, %0" ::"r"(line) : "memory");
  asm volatile("dsb sy" ::: "memory");
}

}  // namespace fk
