// Scratch: temporary memory of a matrix product, kept between calls and grown only when needed.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/memory.h"

namespace fk {

class Scratch {
 public:
  // At least `size_bytes`, page-aligned, contents undefined. Valid until the next call on the same object.
  std::byte* at_least(size_t size_bytes) {
    if (buffer_.size() < size_bytes) buffer_ = Buffer(size_bytes < kHugePage ? kHugePage : size_bytes);
    return buffer_.data();
  }

 private:
  static constexpr size_t kHugePage = size_t{2} << 20;  // smaller allocations use small pages and cause TLB misses
  Buffer buffer_;
};

// The calling thread's own. A product may use both at once: `shared` for what is packed for all threads (x), `panel`
// for what each thread packs for itself (blocks of w).
Scratch& shared_scratch();
Scratch& panel_scratch();

// Memory for each thread of a product. The caller allocates it for all threads before they start: allocation may fail,
// and a thread pool's body must not throw.
class ScratchPerThread {
 public:
  ScratchPerThread(Scratch& from, int64_t threads, int64_t size_bytes)
      : stride_((size_bytes + kPage - 1) / kPage * kPage),
        data_(from.at_least(static_cast<size_t>(threads * stride_))) {}

  std::byte* of(int64_t thread) const { return data_ + thread * stride_; }

 private:
  static constexpr int64_t kPage = 4096;  // so that no two threads write to one page
  int64_t stride_;
  std::byte* data_;
};

}  // namespace fk
