// Replaces the global operator new by one that counts. In a separate file, so that callers cannot inline it; in all its
// forms, so that new and delete always match.
#include "tests/engine/allocation_count.h"

#include <atomic>
#include <cstdlib>
#include <new>

namespace {

std::atomic<int64_t> allocations{0};

void* counted(size_t size) noexcept {
  allocations.fetch_add(1, std::memory_order_relaxed);
  return std::malloc(size);
}

void* counted_or_throw(size_t size) {
  if (void* p = counted(size)) return p;
  throw std::bad_alloc();
}

}  // namespace

int64_t fk::allocation_count() { return allocations.load(); }

void* operator new(size_t size) { return counted_or_throw(size); }
void* operator new[](size_t size) { return counted_or_throw(size); }
void* operator new(size_t size, const std::nothrow_t&) noexcept { return counted(size); }
void* operator new[](size_t size, const std::nothrow_t&) noexcept { return counted(size); }
void operator delete(void* p) noexcept { std::free(p); }
void operator delete[](void* p) noexcept { std::free(p); }
void operator delete(void* p, size_t) noexcept { std::free(p); }
void operator delete[](void* p, size_t) noexcept { std::free(p); }
