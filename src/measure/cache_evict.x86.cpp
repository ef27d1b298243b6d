// clflush waits for each line. clflushopt does not; one fence after all of them waits once.
#include "measure/cache_evict.h"

#include <cpuid.h>
#include <immintrin.h>

#include <cstdint>

namespace fk {
namespace {

bool has_clflushopt() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && ((b >> 23) & 1) != 0;
}

size_t line_bytes() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  size_t bytes = __get_cpuid(1, &a, &b, &c, &d) != 0 ? ((b >> 8) & 0xff) * 8 : 0;
  return bytes == 0 ? 64 : bytes;
}

__attribute__((target("clflushopt"))) void flush_unordered(const char* from, const char* to, size_t step) {
  for (; from < to; from += step) _mm_clflushopt(const_cast<char*>(from));
}

void flush_ordered(const char* from, const char* to, size_t step) {
  for (; from < to; from += step) _mm_clflush(from);
}

}  // namespace

void evict_from_caches(const void* address, size_t size_bytes) {
  static const bool unordered = has_clflushopt();
  static const size_t step = line_bytes();
  if (size_bytes == 0) return;
  const char* end = static_cast<const char*>(address) + size_bytes;
  const char* begin = static_cast<const char*>(address) - reinterpret_cast<uintptr_t>(address) % step;
  _mm_mfence();  // pending stores would bring their lines back
  if (unordered)
    flush_unordered(begin, end, step);
  else
    flush_ordered(begin, end, step);
  _mm_mfence();
}

}  // namespace fk
