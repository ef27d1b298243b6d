// A parallel loop over pieces that lie next to each other in memory, for kernels that read much and compute little.
#pragma once

#include <atomic>
#include <cstdint>

#include "backend/cpu/for_items.h"

namespace fk {

// Pieces first .. last-1 that nobody has taken yet, in one word.
class PiecesLeft {
 public:
  void set(int64_t first, int64_t last) { left_.store(join(first, last), std::memory_order_relaxed); }
  // The next piece, or the last one; negative if there is none.
  int64_t take_first() {
    return take([](int64_t& first, int64_t&) { return first++; });
  }
  int64_t take_last() {
    return take([](int64_t&, int64_t& last) { return --last; });
  }

 private:
  static uint64_t join(int64_t first, int64_t last) {
    return static_cast<uint64_t>(first) << 32 | static_cast<uint64_t>(last);
  }
  template <class Choose>
  int64_t take(Choose choose) {
    uint64_t seen = left_.load(std::memory_order_relaxed);
    for (;;) {
      auto first = static_cast<int64_t>(seen >> 32), last = static_cast<int64_t>(seen & 0xffffffffu);
      if (first >= last) return -1;
      int64_t piece = choose(first, last);
      if (left_.compare_exchange_weak(seen, join(first, last), std::memory_order_relaxed)) return piece;
    }
  }

  alignas(64) std::atomic<uint64_t> left_{0};
};

// Runs body(thread, i) for 0 .. n-1. Each thread takes the pieces of its own share in order, so that what it reads, and
// prefetches, is one stretch of memory; then it takes the last ones of threads that are behind.
template <class Body>
void for_pieces(ThreadPool& pool, int64_t n, Body&& body) {
  constexpr int kMostThreads = 64;
  const int threads = pool.threads();
  if (n <= 1 || threads == 1 || threads > kMostThreads || n > UINT32_MAX) return for_items(pool, n, body);
  PiecesLeft shares[kMostThreads];
  for (int i = 0; i < threads; ++i) shares[i].set(n * i / threads, n * (i + 1) / threads);
  pool.on_all([&](int thread) {
    for (int64_t i; (i = shares[thread].take_first()) >= 0;) body(thread, i);
    for (int other = 1; other < threads; ++other)
      for (int64_t i; (i = shares[(thread + other) % threads].take_last()) >= 0;) body(thread, i);
  });
}

}  // namespace fk
