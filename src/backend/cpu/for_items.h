// A parallel loop that passes the thread index, for kernels with scratch memory per thread.
#pragma once

#include <atomic>
#include <cstdint>

#include "core/thread_pool.h"

namespace fk {

// Runs body(thread, i) for 0 .. n-1; items are distributed dynamically.
template <class Body>
void for_items(ThreadPool& pool, int64_t n, Body&& body) {
  if (n <= 1) {
    if (n == 1) body(0, int64_t{0});
    return;
  }
  std::atomic<int64_t> next{0};
  pool.on_all([&](int thread) {
    for (int64_t i; (i = next.fetch_add(1, std::memory_order_relaxed)) < n;) body(thread, i);
  });
}

}  // namespace fk
